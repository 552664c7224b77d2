// Writes and watches objects as any Go program does: typed clients with their default content type, and an informer.
// Prints one line per step that worked; the first that does not ends it with code 1.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	"google.golang.org/protobuf/proto"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	batchv1apply "k8s.io/client-go/applyconfigurations/batch/v1"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
)

const namespace = "default"

var ctx, cancel = context.WithTimeout(context.Background(), 50*time.Second)

func check(step string, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", step, err)
		os.Exit(1)
	}
	fmt.Println(step)
}

func must(step string, holds bool) {
	if !holds {
		check(step, fmt.Errorf("does not hold"))
	}
	fmt.Println(step)
}

func main() {
	defer cancel()
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	check("kubeconfig", err)
	client, err := kubernetes.NewForConfig(config)
	check("client", err)
	events := informer(client)
	configMaps(client)
	pods(client)
	jobs(client)
	leases(client)
	informed(events)
	protobufOnly(rest.CopyConfig(config))
	applyConfigurations(client)
	leaderElection(client)
	recorded(client)
	metadataAndDynamic(config)
	openAPI(client)
}

func template() corev1.PodSpec {
	return corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever,
		Containers:    []corev1.Container{{Name: "c", Image: "busybox"}},
	}
}

func configMaps(client kubernetes.Interface) {
	maps := client.CoreV1().ConfigMaps(namespace)
	made, err := maps.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "typed", Labels: map[string]string{"client": "go"}},
		Data:       map[string]string{"a": "1"},
		BinaryData: map[string][]byte{"b": {0, 1, 255}},
	}, metav1.CreateOptions{})
	check("configmap created", err)
	made.Data["a"] = "2"
	made, err = maps.Update(ctx, made, metav1.UpdateOptions{})
	check("configmap updated", err)
	must("configmap has what was written", made.Data["a"] == "2" && made.BinaryData["b"][2] == 255)
	_, err = maps.Patch(ctx, "typed", types.StrategicMergePatchType, []byte(`{"data":{"c":"3"}}`), metav1.PatchOptions{})
	check("configmap patched", err)
	stale := made.DeepCopy()
	_, err = maps.Update(ctx, stale, metav1.UpdateOptions{})
	must("stale update is a conflict", apierrors.IsConflict(err))
	_, err = maps.Create(ctx, made, metav1.CreateOptions{})
	must("object with a resourceVersion is not created", err != nil)
	listed, err := maps.List(ctx, metav1.ListOptions{LabelSelector: "client=go"})
	check("configmaps listed", err)
	must("one configmap", len(listed.Items) == 1 && listed.Items[0].Data["c"] == "3")
	check("configmap deleted", maps.Delete(ctx, "typed", metav1.DeleteOptions{}))
	_, err = maps.Get(ctx, "typed", metav1.GetOptions{})
	must("configmap is gone", apierrors.IsNotFound(err))
}

func pods(client kubernetes.Interface) {
	pods := client.CoreV1().Pods(namespace)
	pod, err := pods.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "typed"}, Spec: template()}, metav1.CreateOptions{})
	check("pod created", err)
	pod.Status.Message = "hello"
	pod, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	check("pod status updated", err)
	must("pod has its status", pod.Status.Message == "hello")
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "typed"}, Target: corev1.ObjectReference{Kind: "Node", Name: "n1"}}
	check("pod bound", pods.Bind(ctx, binding, metav1.CreateOptions{}))
	now := int64(0)
	check("pod deleted", pods.Delete(ctx, "typed", metav1.DeleteOptions{GracePeriodSeconds: &now}))
	_, err = pods.Get(ctx, "typed", metav1.GetOptions{})
	must("pod is gone", apierrors.IsNotFound(err))
}

func jobs(client kubernetes.Interface) {
	jobs := client.BatchV1().Jobs(namespace)
	zero, yes := int32(0), true
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "typed"},
		Spec:       batchv1.JobSpec{Suspend: &yes, BackoffLimit: &zero, Template: corev1.PodTemplateSpec{Spec: template()}},
	}
	made, err := jobs.Create(ctx, job, metav1.CreateOptions{})
	check("job created", err)
	must("zero of a pointer is kept", made.Spec.BackoffLimit != nil && *made.Spec.BackoffLimit == 0)
	*made.Spec.Suspend = false
	made, err = jobs.Update(ctx, made, metav1.UpdateOptions{})
	check("job updated", err)
	must("job has generation 2", made.Generation == 2)
	background := metav1.DeletePropagationBackground
	check("job deleted", jobs.Delete(ctx, "typed", metav1.DeleteOptions{PropagationPolicy: &background}))
}

func leases(client kubernetes.Interface) {
	leases := client.CoordinationV1().Leases(namespace)
	holder, now := "me", metav1.NowMicro()
	lease, err := leases.Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "typed"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &now},
	}, metav1.CreateOptions{})
	check("lease created", err)
	must("lease keeps its microseconds", lease.Spec.RenewTime.UnixMicro() == now.UnixMicro())
	lease.Spec.HolderIdentity = nil
	_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	check("lease updated", err)
	check("lease deleted", leases.Delete(ctx, "typed", metav1.DeleteOptions{}))
}

// informer watches ConfigMaps with `sendInitialEvents`, which is the default, and reports what it sees.
func informer(client kubernetes.Interface) <-chan string {
	seen := make(chan string, 100)
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	maps := factory.Core().V1().ConfigMaps().Informer()
	report := func(verb string, obj any) {
		if found, ok := obj.(*corev1.ConfigMap); ok && found.Name == "typed" {
			seen <- verb
		}
	}
	_, err := maps.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { report("added", obj) },
		UpdateFunc: func(_, obj any) { report("updated", obj) },
		DeleteFunc: func(obj any) { report("deleted", obj) },
	})
	check("informer", err)
	factory.Start(ctx.Done())
	must("informer has synced", cache.WaitForCacheSync(ctx.Done(), maps.HasSynced))
	return seen
}

func informed(events <-chan string) {
	for _, expected := range []string{"added", "updated", "updated", "deleted"} {
		select {
		case found := <-events:
			must("informer saw the configmap "+expected, found == expected)
		case <-ctx.Done():
			check("informer saw the configmap "+expected, ctx.Err())
		}
	}
}

// applyConfigurations applies with typed configurations, extracts what a manager owns and meets a conflict.
func applyConfigurations(client kubernetes.Interface) {
	maps := client.CoreV1().ConfigMaps(namespace)
	mine := metav1.ApplyOptions{FieldManager: "go"}
	made, err := maps.Apply(ctx, corev1apply.ConfigMap("applied", namespace).WithData(map[string]string{"a": "1"}), mine)
	check("applied", err)
	owned, err := corev1apply.ExtractConfigMap(made, "go")
	check("extracted", err)
	must("the manager owns what it applied", owned.Data["a"] == "1")
	other := corev1apply.ConfigMap("applied", namespace).WithData(map[string]string{"a": "2"})
	_, err = maps.Apply(ctx, other, metav1.ApplyOptions{FieldManager: "other"})
	must("another manager's apply is a conflict", apierrors.IsConflict(err))
	made, err = maps.Apply(ctx, other, metav1.ApplyOptions{FieldManager: "other", Force: true})
	check("applied by force", err)
	must("force takes the field", made.Data["a"] == "2")
	job := batchv1apply.Job("applied", namespace).WithSpec(batchv1apply.JobSpec().WithSuspend(true).
		WithTemplate(corev1apply.PodTemplateSpec().WithSpec(corev1apply.PodSpec().WithRestartPolicy(corev1.RestartPolicyNever).
			WithContainers(corev1apply.Container().WithName("c").WithImage("busybox")))))
	_, err = client.BatchV1().Jobs(namespace).Apply(ctx, job, mine)
	check("job applied", err)
	condition := batchv1apply.JobCondition().WithType("Told").WithStatus(corev1.ConditionTrue)
	_, err = client.BatchV1().Jobs(namespace).ApplyStatus(ctx, batchv1apply.Job("applied", namespace).
		WithStatus(batchv1apply.JobStatus().WithConditions(condition)), mine)
	check("job status applied", err)
	check("applied job deleted", client.BatchV1().Jobs(namespace).Delete(ctx, "applied", metav1.DeleteOptions{}))
	check("applied configmap deleted", maps.Delete(ctx, "applied", metav1.DeleteOptions{}))
}

// leaderElection holds a lease, hands it over, and a second candidate takes it.
func leaderElection(client kubernetes.Interface) {
	for _, candidate := range []string{"first", "second"} {
		leading, stop := context.WithCancel(ctx)
		lock, err := resourcelock.New(resourcelock.LeasesResourceLock, namespace, "leader", client.CoreV1(), client.CoordinationV1(),
			resourcelock.ResourceLockConfig{Identity: candidate})
		check("lock of "+candidate, err)
		leaderelection.RunOrDie(leading, leaderelection.LeaderElectionConfig{
			Lock: lock, ReleaseOnCancel: true,
			LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) { stop() },
				OnStoppedLeading: func() {},
			},
		})
		must(candidate+" led", ctx.Err() == nil)
	}
}

// recorded tells events through both recorders, which aggregate with patches.
func recorded(client kubernetes.Interface) {
	about, err := client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	check("namespace", err)
	newer := events.NewEventBroadcasterAdapterWithContext(ctx, client)
	newer.StartRecordingToSink(ctx.Done())
	newer.NewRecorder("tests").Eventf(about, nil, corev1.EventTypeNormal, "Newer", "Test", "told")
	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	older := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "tests"})
	for range 3 {
		older.Event(about, corev1.EventTypeNormal, "Older", "told")
	}
	for _, expected := range []struct {
		reason string
		count  int32
	}{{"Newer", 0}, {"Older", 3}} {
		check("event "+expected.reason, wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(context.Context) (bool, error) {
			found, err := client.CoreV1().Events("").List(ctx, metav1.ListOptions{FieldSelector: "reason=" + expected.reason})
			return err == nil && len(found.Items) == 1 && found.Items[0].Count >= expected.count, err
		}))
	}
}

// metadataAndDynamic follows objects without their types: their metadata alone, and as trees.
func metadataAndDynamic(config *rest.Config) {
	groups := schema.GroupVersionResource{Group: "scheduling.k8s.io", Version: "v1beta1", Resource: "podgroups"}
	trees, err := dynamic.NewForConfig(config)
	check("dynamic client", err)
	informed := dynamicinformer.NewFilteredDynamicSharedInformerFactory(trees, 0, namespace, nil)
	seen := informed.ForResource(groups).Informer()
	informed.Start(ctx.Done())
	must("dynamic informer has synced", cache.WaitForCacheSync(ctx.Done(), seen.HasSynced))
	group := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": map[string]any{"name": "dynamic"},
		"spec": map[string]any{"schedulingPolicy": map[string]any{"gang": map[string]any{"minCount": int64(2)}}},
	}}
	_, err = trees.Resource(groups).Namespace(namespace).Create(ctx, group, metav1.CreateOptions{})
	check("tree created", err)
	check("dynamic informer saw it", wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(context.Context) (bool, error) {
		return len(seen.GetStore().ListKeys()) == 1, nil
	}))
	about, err := metadata.NewForConfig(config)
	check("metadata client", err)
	listed, err := about.Resource(groups).Namespace(namespace).List(ctx, metav1.ListOptions{})
	check("metadata listed", err)
	must("metadata has the name", len(listed.Items) == 1 && listed.Items[0].Name == "dynamic")
	check("tree deleted", trees.Resource(groups).Namespace(namespace).Delete(ctx, "dynamic", metav1.DeleteOptions{}))
}

// protobufOnly reads, lists and watches with a client that accepts nothing but protobuf.
func protobufOnly(config *rest.Config) {
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf"
	config.ContentType = "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(config)
	check("client of protobuf alone", err)
	maps := client.CoreV1().ConfigMaps(namespace)
	watch, err := maps.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=packed"})
	check("watch of protobuf", err)
	_, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "packed"}, Data: map[string]string{"a": "1"}}, metav1.CreateOptions{})
	check("created from protobuf to protobuf", err)
	event := <-watch.ResultChan()
	found, ok := event.Object.(*corev1.ConfigMap)
	must("event of protobuf", ok && event.Type == "ADDED" && found.Data["a"] == "1")
	watch.Stop()
	listed, err := maps.List(ctx, metav1.ListOptions{})
	check("list of protobuf", err)
	must("list has the configmap", len(listed.Items) > 0)
	_, err = maps.Get(ctx, "nosuch", metav1.GetOptions{})
	must("error of protobuf", apierrors.IsNotFound(err))
	check("deleted with protobuf", maps.Delete(ctx, "packed", metav1.DeleteOptions{}))
}

// openAPI compares the v2 document in protobuf with what gnostic makes of its JSON.
func openAPI(client kubernetes.Interface) {
	packed, err := client.Discovery().OpenAPISchema()
	check("openapi v2 in protobuf", err)
	plain, err := client.Discovery().RESTClient().Get().AbsPath("/openapi/v2").SetHeader("Accept", "application/json").Do(ctx).Raw()
	check("openapi v2 in JSON", err)
	parsed, err := openapi_v2.ParseDocument(plain)
	check("openapi v2 is valid", err)
	must("openapi v2 says the same in both forms", plainValues(parsed, packed))
}

// plainValues compares paths and definitions; free values are YAML on one side and JSON on the other.
func plainValues(one, other *openapi_v2.Document) bool {
	for _, document := range []*openapi_v2.Document{one, other} {
		for _, path := range document.Paths.Path {
			for _, operation := range []*openapi_v2.Operation{path.Value.Get, path.Value.Put, path.Value.Post, path.Value.Delete, path.Value.Patch} {
				if operation != nil {
					operation.VendorExtension = nil
				}
			}
		}
		for _, definition := range document.Definitions.AdditionalProperties {
			strip(definition.Value)
		}
	}
	return proto.Equal(one, other)
}

func strip(schema *openapi_v2.Schema) {
	if schema == nil {
		return
	}
	schema.Default, schema.Enum, schema.VendorExtension = nil, nil, nil
	for _, property := range schema.GetProperties().GetAdditionalProperties() {
		strip(property.Value)
	}
	for _, item := range schema.GetItems().GetSchema() {
		strip(item)
	}
	for _, part := range schema.AllOf {
		strip(part)
	}
	strip(schema.GetAdditionalProperties().GetSchema())
}
