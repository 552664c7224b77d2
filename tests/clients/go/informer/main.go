// Keeps a cache of ConfigMaps with client-go's informer, through whatever happens to the server.
// For every line on standard input it prints what the cache holds and what the handlers were told, as one line of JSON.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

const namespace = "default"

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// told is what the handlers were told, by name; the value is the resourceVersion.
type told struct {
	sync.Mutex
	versions map[string]string
}

func (t *told) set(object any) {
	t.Lock()
	defer t.Unlock()
	found := object.(*corev1.ConfigMap)
	t.versions[found.Name] = found.ResourceVersion
}

func (t *told) remove(object any) {
	t.Lock()
	defer t.Unlock()
	if last, gone := object.(cache.DeletedFinalStateUnknown); gone {
		object = last.Obj
	}
	delete(t.versions, object.(*corev1.ConfigMap).Name)
}

func main() {
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	check(err)
	client, err := kubernetes.NewForConfig(config)
	check(err)
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	informer := factory.Core().V1().ConfigMaps().Informer()
	seen := &told{versions: map[string]string{}}
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    seen.set,
		UpdateFunc: func(_, now any) { seen.set(now) },
		DeleteFunc: seen.remove,
	})
	check(err)
	factory.Start(context.Background().Done())
	factory.WaitForCacheSync(context.Background().Done())
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		held := map[string]string{}
		for _, object := range informer.GetStore().List() {
			found := object.(*corev1.ConfigMap)
			held[found.Name] = found.ResourceVersion
		}
		seen.Lock()
		text, err := json.Marshal(map[string]any{"held": held, "told": seen.versions})
		seen.Unlock()
		check(err)
		fmt.Println(string(text))
	}
}
