package main

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
	"k8s.io/kubernetes/pkg/controller/daemon"
	"k8s.io/kubernetes/pkg/scheduler"
	schedulercache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// oracle is a whole kube-scheduler with its default profile, whose queue does not run.
type oracle struct {
	scheduler *scheduler.Scheduler
	profile   framework.Framework
	snapshot  *schedulercache.Snapshot
	feeds     *feeds
	logger    klog.Logger
	// errs are errors that Kubernetes' code only logs, such as a pod that its cache would not take.
	errs []error
}

func newOracle(ctx context.Context) (*oracle, error) {
	client := fake.NewClientset()
	// The scheduler's own factory would bring its own pod informer, which waits for a watch.
	factory := informers.NewSharedInformerFactory(client, 0)
	feeds := newFeeds(factory)
	silent := func(string) events.EventRecorderLogger { return &events.FakeRecorder{} }
	made, err := scheduler.New(ctx, client, factory, nil, silent)
	if err != nil {
		return nil, err
	}
	profile, known := made.Profiles[v1.DefaultSchedulerName]
	if !known {
		return nil, fmt.Errorf("kube-scheduler has no profile %s", v1.DefaultSchedulerName)
	}
	snapshot, ours := profile.SnapshotSharedLister().(*schedulercache.Snapshot)
	if !ours {
		return nil, fmt.Errorf("kube-scheduler keeps its snapshot as a %T", profile.SnapshotSharedLister())
	}
	oracle := &oracle{scheduler: made, profile: profile, snapshot: snapshot, feeds: feeds, logger: klog.FromContext(ctx)}
	utilruntime.ErrorHandlers = []utilruntime.ErrorHandler{oracle.note}
	return oracle, nil
}

func (r *oracle) note(_ context.Context, err error, message string, about ...any) {
	r.errs = append(r.errs, fmt.Errorf("%s %v: %w", message, about, err))
}

// check checks one cluster; an error means that the cluster itself is invalid.
func (r *oracle) check(ctx context.Context, given *cluster) (*caseResult, error) {
	if err := r.feeds.clear(); err != nil {
		return nil, err
	}
	if err := r.load(ctx, given); err != nil {
		return nil, err
	}
	answer := &caseResult{
		Seed: given.Seed, Variant: given.Variant, Disagreements: []disagreement{}, Missed: []place{}, Roomy: []place{},
	}
	if err := r.placeDaemons(ctx, given, answer); err != nil {
		return nil, err
	}
	for i := range given.Pods {
		if err := r.place(ctx, &given.Pods[i], answer); err != nil {
			return nil, err
		}
	}
	for i := range given.Pending {
		if err := r.search(ctx, given, &given.Pending[i], answer); err != nil {
			return nil, err
		}
	}
	return answer, errors.Join(r.errs...)
}

// place checks one placement. A pod that was refused is put there all the same, for the later ones were planned with it.
func (r *oracle) place(ctx context.Context, given *placement, answer *caseResult) error {
	pod, err := admit(ctx, &given.Pod)
	if err != nil {
		return err
	}
	refused, err := r.refusal(ctx, pod, given.Node)
	if err != nil {
		return err
	}
	if refused != nil {
		answer.Disagreements = append(answer.Disagreements, *refused)
	}
	return r.bind(pod, given.Node)
}

// search looks for nodes on which a pod unschedulable would be put.
func (r *oracle) search(ctx context.Context, given *cluster, pending *v1.Pod, answer *caseResult) error {
	pod, err := admit(ctx, pending)
	if err != nil {
		return err
	}
	for i := range given.Nodes {
		node := &given.Nodes[i]
		refused, err := r.refusal(ctx, pod, node.Name)
		if err != nil {
			return err
		}
		found := place{Pod: fullName(pod), Node: node.Name}
		switch {
		case refused != nil:
		case node.Planned || node.Arriving:
			answer.Roomy = append(answer.Roomy, found)
		default:
			answer.Missed = append(answer.Missed, found)
		}
	}
	return nil
}

// refusal asks all PreFilter and Filter plugins about one pod on one node; nil means that they let it in.
func (r *oracle) refusal(ctx context.Context, pod *v1.Pod, on string) (*disagreement, error) {
	if err := r.scheduler.Cache.UpdateSnapshot(r.logger, r.snapshot); err != nil {
		return nil, err
	}
	node, err := r.snapshot.Get(on)
	if err != nil {
		return nil, fmt.Errorf("pod %s is placed on node %s, which does not exist", fullName(pod), on)
	}
	state := framework.NewCycleState()
	among, status, _ := r.profile.RunPreFilterPlugins(ctx, state, pod)
	if status.IsSuccess() && !among.AllNodes() && !among.NodeNames.Has(on) {
		status = fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "PreFilter names other nodes").WithPlugin("PreFilter")
	}
	if status.IsSuccess() {
		status = r.profile.RunFilterPluginsWithNominatedPods(ctx, state, pod, node)
	}
	switch {
	case status.IsSuccess():
		return nil, nil
	case status.IsRejected():
		return &disagreement{Pod: fullName(pod), Node: on, Plugin: status.Plugin(), Reasons: status.Reasons()}, nil
	}
	return nil, fmt.Errorf("kube-scheduler fails on pod %s and node %s: %w", fullName(pod), on, status.AsError())
}

// bind makes the pod run on the node.
func (r *oracle) bind(pod *v1.Pod, on string) error {
	object, exists, _ := r.feeds.nodes.GetIndexer().GetByKey(on)
	if !exists {
		return fmt.Errorf("pod %s runs on node %s, which does not exist", fullName(pod), on)
	}
	running := pod.DeepCopy()
	running.Spec.NodeName = on
	running.Status.Phase = v1.PodRunning
	if err := r.settle(running, object.(*v1.Node)); err != nil {
		return err
	}
	return r.feeds.pods.add(running)
}

// load gives the scheduler all objects that exist before the first placement.
func (r *oracle) load(ctx context.Context, given *cluster) error {
	for i := range given.Namespaces {
		if err := r.feeds.namespaces.add(&given.Namespaces[i]); err != nil {
			return err
		}
	}
	for i := range given.Nodes {
		if err := r.feeds.nodes.add(&given.Nodes[i].Node); err != nil {
			return err
		}
	}
	if err := r.loadStorage(given); err != nil {
		return err
	}
	for i := range given.Bound {
		pod, err := admit(ctx, &given.Bound[i])
		if err != nil {
			return err
		}
		if err := r.bind(pod, given.Bound[i].Spec.NodeName); err != nil {
			return err
		}
	}
	return nil
}

func (r *oracle) loadStorage(given *cluster) error {
	for i := range given.StorageClasses {
		class := &given.StorageClasses[i]
		legacyscheme.Scheme.Default(class)
		if err := r.feeds.classes.add(class); err != nil {
			return err
		}
	}
	for i := range given.PersistentVolumes {
		made := &given.PersistentVolumes[i]
		if made.Spec.ClaimRef == nil {
			return fmt.Errorf("volume %s has no claim: the oracle does not match free volumes with claims", made.Name)
		}
		legacyscheme.Scheme.Default(made)
		if err := r.feeds.volumes.add(made); err != nil {
			return err
		}
	}
	for i := range given.PersistentVolumeClaims {
		claim := &given.PersistentVolumeClaims[i]
		legacyscheme.Scheme.Default(claim)
		if err := r.feeds.claims.add(claim); err != nil {
			return err
		}
	}
	for i := range given.CSINodes {
		if err := r.feeds.csiNodes.add(&given.CSINodes[i]); err != nil {
			return err
		}
	}
	return nil
}

// placeDaemons gives each node the DaemonSet pods that it lacks. One that does not fit on a planned node is a
// disagreement, for the plan should have left it; on an existing node it is not an error of the plan. So is one that pods
// keep away which run already: nothing of the plan runs yet.
func (r *oracle) placeDaemons(ctx context.Context, given *cluster, answer *caseResult) error {
	for i := range given.DaemonSets {
		set := &given.DaemonSets[i]
		legacyscheme.Scheme.Default(set)
		for j := range given.Nodes {
			node := &given.Nodes[j]
			runs, _ := daemon.NodeShouldRunDaemonPod(r.logger, &node.Node, set)
			if !runs || hasDaemon(given, set, node.Name) {
				continue
			}
			if err := r.placeDaemon(ctx, set, node, answer); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *oracle) placeDaemon(ctx context.Context, set *appsv1.DaemonSet, on *node, answer *caseResult) error {
	made := daemon.NewPod(set, "")
	made.Name = set.Name + "-on-" + on.Name
	pod, err := admit(ctx, made)
	if err != nil {
		return err
	}
	refused, err := r.refusal(ctx, pod, on.Name)
	if err != nil {
		return err
	}
	switch {
	case refused == nil:
		return r.bind(pod, on.Name)
	case on.Planned && refused.Plugin != names.InterPodAffinity:
		answer.Disagreements = append(answer.Disagreements, *refused)
	}
	return nil
}

// hasDaemon reports whether one of the set's pods is among the bound ones of a node.
func hasDaemon(given *cluster, set *appsv1.DaemonSet, on string) bool {
	for i := range given.Bound {
		pod := &given.Bound[i]
		for _, owner := range pod.OwnerReferences {
			if pod.Spec.NodeName == on && pod.Namespace == set.Namespace && owner.Kind == "DaemonSet" && owner.Name == set.Name {
				return true
			}
		}
	}
	return false
}

func fullName(pod *v1.Pod) string {
	return pod.Namespace + "/" + pod.Name
}
