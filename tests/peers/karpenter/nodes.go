package main

import (
	"fmt"

	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/utils/resources"
)

// existing is a node of the pool with its claim and the pods that it runs.
type existing struct {
	index int
	claim *v1.NodeClaim
	node  *corev1.Node
	pods  []*corev1.Pod
}

// newExisting is a node of one of the type's offerings. Its type's labels are as the type has them, the first where
// there are several.
func newExisting(index int, e entry, d draws) existing {
	bought := e.Offerings[d.Intn(len(e.Offerings))]
	name := fmt.Sprintf("node-%05d", index)
	labels := map[string]string{
		corev1.LabelHostname:                             name,
		corev1.LabelInstanceTypeStable:                   e.Name,
		corev1.LabelTopologyZone:                         bought.Zone,
		v1.CapacityTypeLabelKey:                          bought.CapacityType,
		v1.NodePoolLabelKey:                              "default",
		v1.NodeRegisteredLabelKey:                        "true",
		v1.NodeInitializedLabelKey:                       "true",
		"testing/cluster":                                "unspecified",
		v1.NodeClassLabelKey(nodeClassRef().GroupKind()): "default",
	}
	for key, named := range e.Labels {
		labels[key] = named[0]
	}
	labels[corev1.LabelOSStable] = "linux"
	providerID := fmt.Sprintf("aws:///%s/i-%017x", bought.Zone, index)
	allocatable := resources.Subtract(e.Capacity, e.Overhead)
	return existing{
		index: index,
		claim: claimOf(index, labels, v1.NodeClaimStatus{
			ProviderID: providerID, NodeName: name, Capacity: e.Capacity, Allocatable: allocatable,
		}),
		node: &corev1.Node{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid("node", index), CreationTimestamp: born, Labels: labels},
			Spec:       corev1.NodeSpec{ProviderID: providerID},
			Status: corev1.NodeStatus{
				Capacity: e.Capacity, Allocatable: allocatable,
				Conditions: []corev1.NodeCondition{{
					Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady",
					LastHeartbeatTime: born, LastTransitionTime: born,
				}},
			},
		},
	}
}

// claimOf is the claim that the node came from: launched, registered and initialized.
func claimOf(index int, labels map[string]string, status v1.NodeClaimStatus) *v1.NodeClaim {
	claim := &v1.NodeClaim{
		TypeMeta: metav1.TypeMeta{APIVersion: "karpenter.sh/v1", Kind: "NodeClaim"},
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("default-%05d", index), UID: uid("claim", index), CreationTimestamp: born,
			Generation: 1, Labels: map[string]string{},
		},
		Status: status,
	}
	for key, value := range labels {
		if key != corev1.LabelHostname && key != v1.NodeRegisteredLabelKey && key != v1.NodeInitializedLabelKey {
			claim.Labels[key] = value
		}
	}
	claim.Spec.NodeClassRef = nodeClassRef()
	claim.Spec.Requirements = []v1.NodeSelectorRequirementWithMinValues{{
		Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn,
		Values: []string{labels[corev1.LabelInstanceTypeStable]},
	}}
	for _, condition := range []string{v1.ConditionTypeLaunched, v1.ConditionTypeRegistered, v1.ConditionTypeInitialized, "Ready"} {
		claim.Status.Conditions = append(claim.Status.Conditions, conditionTrue(condition))
	}
	return claim
}

// fill adds pods that fit and that may run here until the fullest resource has reached the percentage.
func (n *existing) fill(percent int, draw func() *corev1.Pod) {
	for misses := 0; misses < 5; {
		if p := draw(); n.takes(p, percent) {
			n.add(p)
		} else {
			misses++
		}
	}
}

// takes reports whether the pod may run here and the node stays at most this full with it.
func (n *existing) takes(p *corev1.Pod, percent int) bool {
	architecture := p.Spec.NodeSelector[corev1.LabelArchStable]
	if architecture != "" && architecture != n.node.Labels[corev1.LabelArchStable] {
		return false
	}
	used := resources.RequestsForPods(append([]*corev1.Pod{p}, n.pods...)...)
	allowed := corev1.ResourceList{}
	for name, quantity := range n.node.Status.Allocatable {
		allowed[name] = *resource.NewMilliQuantity(quantity.MilliValue()*int64(percent)/100, quantity.Format)
	}
	return resources.Fits(used, allowed)
}

// add binds the pod to the node.
func (n *existing) add(p *corev1.Pod) {
	p.Name = fmt.Sprintf("bound-%05d-%03d", n.index, len(n.pods))
	p.UID = uid("bound", n.index*1000+len(n.pods))
	bind(p, n.node.Name)
	n.pods = append(n.pods, p)
}

func conditionTrue(kind string) status.Condition {
	return status.Condition{
		Type: kind, Status: metav1.ConditionTrue, Reason: kind, ObservedGeneration: 1, LastTransitionTime: born,
	}
}
