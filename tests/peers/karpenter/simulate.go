package main

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/log"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/fake"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator/injection"
	"sigs.k8s.io/karpenter/pkg/operator/logging"
	"sigs.k8s.io/karpenter/pkg/operator/options"
	"sigs.k8s.io/karpenter/pkg/test"
	"sigs.k8s.io/karpenter/pkg/test/v1alpha1"
	"sigs.k8s.io/karpenter/pkg/utils/pdb"
)

// simulated is the line on stdout: what it took to find out for some nodes, each by itself, where their pods could go.
// NeedNoOther counts those whose pods fit on the other nodes.
type simulated struct {
	Workload      string `json:"workload"`
	Nodes         int    `json:"nodes"`
	Pods          int    `json:"pods"`
	Candidates    int    `json:"candidates"`
	NeedNoOther   int    `json:"needNoOther"`
	SimulateNanos int64  `json:"simulateNanos"`
	SimulateCPU   int64  `json:"simulateCpuNanos"`
	SlowestNanos  int64  `json:"slowestNanos"`
	MaxRSSBytes   int64  `json:"maxRssBytes"`
}

// simulate times Karpenter's SimulateScheduling, and nothing else, for a sample of the folder's nodes.
func simulate(folder string, count int) (simulated, error) {
	objects, types, err := readWorkload(folder)
	if err != nil {
		return simulated{}, err
	}
	if count < 1 || count > len(objects.nodes) {
		return simulated{}, fmt.Errorf("%d candidates of %d nodes: ask for at least one and at most all", count, len(objects.nodes))
	}
	log.SetLogger(logging.NopLogger)
	ctx := options.ToContext(injection.WithControllerName(context.Background(), "disruption"), test.Options())
	sample := objects.sample(count)
	stage, err := newStage(ctx, objects, types, sample)
	if err != nil {
		return simulated{}, err
	}
	candidates, err := stage.candidates(ctx, sample)
	if err != nil {
		return simulated{}, err
	}
	answer := simulated{
		Workload: filepath.Base(filepath.Clean(folder)), Nodes: len(objects.nodes), Pods: len(objects.bound),
	}
	err = answer.addAll(ctx, stage, candidates)
	return answer, err
}

// addAll simulates one after the other.
func (s *simulated) addAll(ctx context.Context, on *stage, candidates []*disruption.Candidate) error {
	runtime.GC() // As Go's benchmarks do before they start the clock.
	before := used()
	for _, candidate := range candidates {
		if err := s.add(ctx, on, candidate); err != nil {
			return err
		}
	}
	after := used()
	s.SimulateCPU = processor(after) - processor(before)
	s.MaxRSSBytes = after.Maxrss * 1024 // Linux counts it in KiB.
	return nil
}

// add simulates one node's going.
func (s *simulated) add(ctx context.Context, on *stage, candidate *disruption.Candidate) error {
	start := time.Now()
	results, err := disruption.SimulateScheduling(ctx, on.kube, on.cluster, on.provisioner, on.clock, on.recorder,
		[]scheduling.Options{scheduling.IsConsolidationSimulation}, candidate)
	took := time.Since(start).Nanoseconds()
	if err != nil {
		return fmt.Errorf("simulating that %s goes, %w", candidate.Name(), err)
	}
	if len(results.PodErrors) > 0 {
		return fmt.Errorf("%d pods of %s find no place, though a new node may be bought", len(results.PodErrors), candidate.Name())
	}
	s.Candidates++
	s.SimulateNanos += took
	s.SlowestNanos = max(s.SlowestNanos, took)
	if len(results.NewNodeClaims) == 0 {
		s.NeedNoOther++
	}
	return nil
}

// sample is so many of the nodes' names, evenly from the first to the last.
func (o objects) sample(count int) map[string]bool {
	names := map[string]bool{}
	for i := range count {
		names[o.nodes[i*len(o.nodes)/count].Name] = true
	}
	return names
}

// stage is what a simulation looks at. All nodes and pods are in the cluster state. The API server's stand-in shows the
// pods of the sample only: the controller's cache finds by an index what it is asked for, the stand-in would go through
// all that it has each time, and its slowness is not Karpenter's.
type stage struct {
	kube        client.Client
	cloud       *fake.CloudProvider
	cluster     *state.Cluster
	provisioner *provisioning.Provisioner
	recorder    events.Recorder
	clock       clock.Clock
}

func newStage(ctx context.Context, o objects, types []*cloudprovider.InstanceType, sample map[string]bool) (*stage, error) {
	cluster, err := o.cluster(ctx)
	if err != nil {
		return nil, err
	}
	cloud := fake.NewCloudProvider()
	cloud.InstanceTypes = types
	kube := fakeclient.NewClientBuilder().
		WithIndex(&corev1.Pod{}, "spec.nodeName", nodeOf).WithObjects(o.shown(sample)...).Build()
	recorder, now := events.NewRecorder(&record.FakeRecorder{}), clock.RealClock{}
	return &stage{
		kube: kube, cloud: cloud, cluster: cluster, recorder: recorder, clock: now,
		provisioner: provisioning.NewProvisioner(kube, recorder, cloud, cluster, now, nil, nil),
	}, nil
}

// shown are the objects of the API server's stand-in. The pools are ready, and of the class that the fake cloud knows.
func (o objects) shown(sample map[string]bool) []client.Object {
	var shown []client.Object
	for _, pool := range o.pools {
		ready := pool.DeepCopy()
		ready.Spec.Template.Spec.NodeClassRef = &v1.NodeClassReference{
			Group: v1alpha1.Group, Kind: "TestNodeClass", Name: pool.Spec.Template.Spec.NodeClassRef.Name,
		}
		ready.StatusConditions().SetTrue(v1.ConditionTypeValidationSucceeded)
		ready.StatusConditions().SetTrue(v1.ConditionTypeNodeClassReady)
		shown = append(shown, ready)
	}
	for _, pod := range o.bound {
		if sample[pod.Spec.NodeName] {
			shown = append(shown, pod)
		}
	}
	return shown
}

// candidates are the nodes of the sample as the disruption controller takes them up before it looks at any.
func (s *stage) candidates(ctx context.Context, sample map[string]bool) ([]*disruption.Candidate, error) {
	pools, types, err := disruption.BuildNodePoolMap(ctx, s.kube, s.cloud)
	if err != nil {
		return nil, err
	}
	budgets, err := pdb.NewLimits(ctx, s.kube)
	if err != nil {
		return nil, err
	}
	queue := disruption.NewQueue(s.kube, s.recorder, s.cluster, s.clock, s.provisioner)
	var found []*disruption.Candidate
	for _, node := range s.cluster.DeepCopyNodes() {
		if !sample[node.Name()] {
			continue
		}
		candidate, err := disruption.NewCandidate(ctx, s.kube, s.recorder, s.clock, node, budgets, pools, types, queue,
			disruption.GracefulDisruptionClass)
		if err != nil {
			return nil, fmt.Errorf("node %s is no candidate, %w", node.Name(), err)
		}
		found = append(found, candidate)
	}
	return found, nil
}
