package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/log"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/fake"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator/logging"
	"sigs.k8s.io/karpenter/pkg/utils/daemonset"
	"sigs.k8s.io/karpenter/pkg/utils/nodepool"
)

// concurrency is the benchmark's.
const concurrency = 5

// objects are those of a workload that a scheduling pass looks at.
type objects struct {
	pools      []*v1.NodePool
	claims     []*v1.NodeClaim
	nodes      []*corev1.Node
	namespaces []*corev1.Namespace
	pending    []*corev1.Pod
	bound      []*corev1.Pod
	daemons    []*corev1.Pod
}

// readWorkload reads both files of a folder.
func readWorkload(folder string) (objects, []*cloudprovider.InstanceType, error) {
	read, err := readCatalogue(folder)
	if err != nil {
		return objects{}, nil, err
	}
	types, err := read.instanceTypes()
	if err != nil {
		return objects{}, nil, err
	}
	found, err := readObjects(filepath.Join(folder, "objects.json"))
	return found, types, err
}

func readObjects(path string) (objects, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return objects{}, err
	}
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return objects{}, fmt.Errorf("%s: %w", path, err)
	}
	var read objects
	for i, item := range list.Items {
		if err := read.take(item); err != nil {
			return objects{}, fmt.Errorf("%s: item %d: %w", path, i, err)
		}
	}
	nodepool.OrderByWeight(read.pools)
	return read, nil
}

// take files one object under its kind. Classes, workloads and the like have no part in a scheduling pass.
func (o *objects) take(item []byte) error {
	var header struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(item, &header); err != nil {
		return err
	}
	switch header.Kind {
	case "NodePool":
		return decode(item, &o.pools)
	case "NodeClaim":
		return decode(item, &o.claims)
	case "Node":
		return decode(item, &o.nodes)
	case "Namespace":
		return decode(item, &o.namespaces)
	case "DaemonSet":
		var sets []*appsv1.DaemonSet
		if err := decode(item, &sets); err != nil {
			return err
		}
		o.daemons = append(o.daemons, daemonset.PodForDaemonSet(sets[0]))
	case "Pod":
		var pods []*corev1.Pod
		if err := decode(item, &pods); err != nil {
			return err
		}
		if pods[0].Spec.NodeName == "" {
			o.pending = append(o.pending, pods[0])
		} else {
			o.bound = append(o.bound, pods[0])
		}
	}
	return nil
}

func decode[T any](item []byte, into *[]*T) error {
	read := new(T)
	*into = append(*into, read)
	return json.Unmarshal(item, read)
}

// newScheduler builds all that Karpenter's benchmark builds before it starts its clock. What the benchmark does not
// have, nodes and what runs on them, comes from Karpenter's own cluster state.
func newScheduler(
	ctx context.Context, o objects, types []*cloudprovider.InstanceType, chosen solveOptions,
) (*scheduling.Scheduler, error) {
	log.SetLogger(logging.NopLogger)
	cluster, err := o.cluster(ctx)
	if err != nil {
		return nil, err
	}
	// A claim without a reservation to be had waits, as in the controller; the benchmark has no reservations.
	chosenOptions := []scheduling.Options{
		scheduling.NumConcurrentReconciles(concurrency), scheduling.DisableReservedCapacityFallback,
	}
	if chosen.ignorePreferences {
		chosenOptions = append(chosenOptions, scheduling.IgnorePreferences)
	}
	kube := fakeclient.NewClientBuilder().WithObjects(o.existing()...).Build()
	nodes := cluster.DeepCopyNodes().Active()
	byPool := typesOf(o.pools, types)
	topology, err := scheduling.NewTopology(ctx, kube, cluster, nodes, o.pools, byPool, o.pending, chosenOptions...)
	if err != nil {
		return nil, fmt.Errorf("creating topology, %w", err)
	}
	return scheduling.NewScheduler(ctx, kube, o.pools, cluster, nodes, topology, byPool, o.daemons,
		events.NewRecorder(&record.FakeRecorder{}), clock.RealClock{}, nil, nil, chosenOptions...), nil
}

// existing is what the API server's stand-in shows to the topology: where pods run.
func (o objects) existing() []client.Object {
	var found []client.Object
	for _, namespace := range o.namespaces {
		found = append(found, namespace)
	}
	for _, node := range o.nodes {
		found = append(found, node)
	}
	for _, pod := range o.bound {
		found = append(found, pod)
	}
	return found
}

// cluster is Karpenter's cluster state, which receives each object as from its watches. Its API server is empty:
// the state asks it for the pods of each node, the stand-in answers by going through all pods there are, and for a
// large cluster that takes minutes; the pods are sent one by one instead.
func (o objects) cluster(ctx context.Context) (*state.Cluster, error) {
	kube := fakeclient.NewClientBuilder().WithIndex(&corev1.Pod{}, "spec.nodeName", nodeOf).Build()
	cluster := state.NewCluster(clock.RealClock{}, kube, fake.NewCloudProvider())
	for _, claim := range o.claims {
		cluster.UpdateNodeClaim(claim)
	}
	for _, node := range o.nodes {
		if err := cluster.UpdateNode(ctx, node); err != nil {
			return nil, err
		}
	}
	for _, pod := range o.bound {
		if err := cluster.UpdatePod(ctx, pod); err != nil {
			return nil, err
		}
	}
	return cluster, nil
}

func nodeOf(object client.Object) []string { return []string{object.(*corev1.Pod).Spec.NodeName} }
