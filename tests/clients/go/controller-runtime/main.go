// A manager with default settings: leader election, a cache, a reconciler with finalizer, owned objects, patches,
// server-side apply and events. Prints one line per step that worked; the first that does not ends it with code 1.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

const (
	namespace = "controller-runtime"
	finalizer = "example.org/copies"
	byTarget  = "data.target"
)

var ctx, cancel = context.WithTimeout(context.Background(), 90*time.Second)

func check(step string, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", step, err)
		os.Exit(1)
	}
	fmt.Println(step)
}

func until(step string, holds func() bool) {
	check(step, wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 60*time.Second, true, func(context.Context) (bool, error) {
		return holds(), nil
	}))
}

// copier keeps a Secret for every ConfigMap that is labelled.
type copier struct {
	client.Client
	recorder events.EventRecorder
}

func (c *copier) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var source corev1.ConfigMap
	if err := c.Get(ctx, request.NamespacedName, &source); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !source.DeletionTimestamp.IsZero() {
		if controllerutil.RemoveFinalizer(&source, finalizer) {
			return ctrl.Result{}, c.Update(ctx, &source)
		}
		return ctrl.Result{}, nil
	}
	if controllerutil.AddFinalizer(&source, finalizer) {
		return ctrl.Result{}, c.Update(ctx, &source)
	}
	copied := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: source.Name, Namespace: source.Namespace}}
	done, err := controllerutil.CreateOrUpdate(ctx, c.Client, copied, func() error {
		copied.StringData = source.Data
		return controllerutil.SetControllerReference(&source, copied, c.Scheme())
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	applied := corev1apply.ConfigMap(source.Name+"-applied", source.Namespace).WithData(map[string]string{"done": string(done)})
	if err := c.Apply(ctx, applied, client.FieldOwner("copier"), client.ForceOwnership); err != nil {
		return ctrl.Result{}, err
	}
	before := source.DeepCopy()
	metav1.SetMetaDataAnnotation(&source.ObjectMeta, "example.org/copied", "yes")
	if err := c.Patch(ctx, &source, client.MergeFrom(before)); err != nil {
		return ctrl.Result{}, err
	}
	c.recorder.Eventf(&source, copied, corev1.EventTypeNormal, "Copied", "Copy", "copied to secret %s", copied.Name)
	return ctrl.Result{}, nil
}

func start(config *rest.Config) manager.Manager {
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Metrics:                 server.Options{BindAddress: "0"},
		LeaderElection:          true,
		LeaderElectionID:        "copier.example.org",
		LeaderElectionNamespace: namespace,
	})
	check("manager", err)
	check("index", mgr.GetFieldIndexer().IndexField(ctx, &corev1.ConfigMap{}, byTarget, func(obj client.Object) []string {
		return []string{obj.(*corev1.ConfigMap).Data["target"]}
	}))
	labelled, err := predicate.LabelSelectorPredicate(metav1.LabelSelector{MatchLabels: map[string]string{"copy": "yes"}})
	check("predicate", err)
	check("controller", ctrl.NewControllerManagedBy(mgr).
		For(&corev1.ConfigMap{}, builder.WithPredicates(labelled)).
		Owns(&corev1.Secret{}).
		Complete(&copier{mgr.GetClient(), mgr.GetEventRecorder("copier")}))
	go func() {
		if err := mgr.Start(ctx); err != nil {
			check("manager runs", err)
		}
	}()
	<-mgr.Elected()
	fmt.Println("leader")
	return mgr
}

func main() {
	defer cancel()
	log.SetLogger(zap.New())
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	check("kubeconfig", err)
	direct, err := client.New(config, client.Options{})
	check("client", err)
	check("namespace", direct.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	mgr := start(config)

	source := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "one", Namespace: namespace, Labels: map[string]string{"copy": "yes"}},
		Data:       map[string]string{"target": "a"},
	}
	check("created", direct.Create(ctx, source))
	key := client.ObjectKeyFromObject(source)
	copied := func(text string) func() bool {
		return func() bool {
			var secret corev1.Secret
			return direct.Get(ctx, key, &secret) == nil && string(secret.Data["target"]) == text
		}
	}
	until("reconciled", copied("a"))
	until("patched", func() bool {
		return direct.Get(ctx, key, source) == nil && source.Annotations["example.org/copied"] == "yes"
	})
	source.Data["target"] = "b"
	check("updated", direct.Update(ctx, source))
	until("reconciled again", copied("b"))
	check("owned object deleted", direct.Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "one", Namespace: namespace}}))
	until("made again", copied("b"))

	var found corev1.ConfigMapList
	until("found in the cache by its index", func() bool {
		err := mgr.GetClient().List(ctx, &found, client.InNamespace(namespace), client.MatchingFields{byTarget: "b"})
		return err == nil && len(found.Items) == 1
	})
	var applied corev1.ConfigMap
	check("applied", direct.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "one-applied"}, &applied))
	until("event", func() bool {
		var told corev1.EventList
		err := direct.List(ctx, &told, client.InNamespace(namespace), client.MatchingFields{"reason": "Copied"})
		return err == nil && len(told.Items) > 0
	})

	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	check("metadata from the cache", mgr.GetClient().Get(ctx, key, metadata))
	group := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"schedulingPolicy": map[string]any{"gang": map[string]any{"minCount": int64(2)}}},
	}}
	group.SetGroupVersionKind(schema.GroupVersionKind{Group: "scheduling.k8s.io", Version: "v1beta1", Kind: "PodGroup"})
	group.SetName("group")
	group.SetNamespace(namespace)
	check("unstructured", direct.Create(ctx, group))
	check("collection deleted", direct.DeleteAllOf(ctx, group, client.InNamespace(namespace)))

	check("deleted", direct.Delete(ctx, source))
	until("finalizer ran", func() bool { return apierrors.IsNotFound(direct.Get(ctx, key, source)) })
	until("owned object collected", func() bool { return apierrors.IsNotFound(direct.Get(ctx, key, &corev1.Secret{})) })
	fmt.Println("done")
}
