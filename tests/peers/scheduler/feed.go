package main

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// feed is an informer that receives objects by calls, in this goroutine. A watch would send the scheduler the same
// things a moment later, and the oracle would have to wait for each of them.
type feed struct {
	cache.SharedIndexInformer
	handlers []cache.ResourceEventHandler
}

// feeds are the kinds of object that a cluster may have; all other informers stay empty.
type feeds struct {
	namespaces, nodes, pods, volumes, claims, classes, csiNodes *feed
}

// newFeeds must be the first to ask the factory for anything.
func newFeeds(factory informers.SharedInformerFactory) *feeds {
	return &feeds{
		namespaces: newFeed(factory, &v1.Namespace{}),
		nodes:      newFeed(factory, &v1.Node{}),
		pods:       newFeed(factory, &v1.Pod{}),
		volumes:    newFeed(factory, &v1.PersistentVolume{}),
		claims:     newFeed(factory, &v1.PersistentVolumeClaim{}),
		classes:    newFeed(factory, &storagev1.StorageClass{}),
		csiNodes:   newFeed(factory, &storagev1.CSINode{}),
	}
}

// newFeed takes the informer's place in the factory: the first caller for this kind decides its implementation.
func newFeed(factory informers.SharedInformerFactory, kind runtime.Object) *feed {
	indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	own := &feed{SharedIndexInformer: cache.NewSharedIndexInformer(&cache.ListWatch{}, kind, 0, indexers)}
	factory.InformerFor(kind, func(clientset.Interface, time.Duration) cache.SharedIndexInformer { return own })
	return own
}

func (f *feed) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	f.handlers = append(f.handlers, handler)
	return f.SharedIndexInformer.AddEventHandler(handler)
}

func (f *feed) AddEventHandlerWithResyncPeriod(
	handler cache.ResourceEventHandler, _ time.Duration,
) (cache.ResourceEventHandlerRegistration, error) {
	return f.AddEventHandler(handler)
}

func (f *feed) AddEventHandlerWithOptions(
	handler cache.ResourceEventHandler, _ cache.HandlerOptions,
) (cache.ResourceEventHandlerRegistration, error) {
	return f.AddEventHandler(handler)
}

// add sends a new object.
func (f *feed) add(object runtime.Object) error {
	if key, _ := cache.MetaNamespaceKeyFunc(object); f.known(key) {
		return fmt.Errorf("two objects of type %T are called %s", object, key)
	}
	if err := f.GetIndexer().Add(object); err != nil {
		return err
	}
	for _, handler := range f.handlers {
		handler.OnAdd(object, false)
	}
	return nil
}

// update sends an object's new version.
func (f *feed) update(before, after runtime.Object) error {
	if err := f.GetIndexer().Update(after); err != nil {
		return err
	}
	for _, handler := range f.handlers {
		handler.OnUpdate(before, after)
	}
	return nil
}

// clear removes every object.
func (f *feed) clear() error {
	for _, object := range f.GetIndexer().List() {
		if err := f.GetIndexer().Delete(object); err != nil {
			return err
		}
		for _, handler := range f.handlers {
			handler.OnDelete(object)
		}
	}
	return nil
}

func (f *feed) known(key string) bool {
	_, exists, _ := f.GetIndexer().GetByKey(key)
	return exists
}

// clear empties the cluster: pods before the nodes that they run on.
func (f *feeds) clear() error {
	for _, one := range []*feed{f.pods, f.csiNodes, f.nodes, f.claims, f.volumes, f.classes, f.namespaces} {
		if err := one.clear(); err != nil {
			return err
		}
	}
	return nil
}
