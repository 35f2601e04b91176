package main

import (
	"fmt"
	"math/rand"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// born is the age of every object: Karpenter orders equal pods by age and then by UID, so the UIDs decide.
var born = metav1.NewTime(time.Date(2026, time.November, 1, 0, 0, 0, 0, time.UTC))

// draws is the benchmark's generator. Each workload starts it anew from the benchmark's seed; within a pod the order
// of the draws is part of the result.
type draws struct{ *rand.Rand }

func newDraws() draws { return draws{rand.New(rand.NewSource(42))} }

func (d draws) label() string { return string("abcdefg"[d.Intn(7)]) }

func (d draws) requests() corev1.ResourceList {
	cpu := []int{100, 250, 500, 1000, 1500}[d.Intn(5)]
	memory := []int{100, 256, 512, 1024, 2048, 4096}[d.Intn(6)]
	return requests(cpu, memory)
}

// requests takes CPU in millicores and memory in MiB.
func requests(cpu, memory int) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse(fmt.Sprintf("%dm", cpu)),
		corev1.ResourceMemory: resource.MustParse(fmt.Sprintf("%dMi", memory)),
	}
}

// diversePods is the benchmark's mix: five blocks of a fifth each, the remainder generic.
func diversePods(d draws, count int) []*corev1.Pod {
	blocks := []func() *corev1.Pod{
		d.generic,
		func() *corev1.Pod { return d.spread(corev1.LabelTopologyZone) },
		func() *corev1.Pod { return d.spread(corev1.LabelHostname) },
		d.zoneAffinity,
		d.hostAntiAffinity,
	}
	var pods []*corev1.Pod
	for _, draw := range blocks {
		for range count / len(blocks) {
			pods = append(pods, draw())
		}
	}
	for len(pods) < count {
		pods = append(pods, d.generic())
	}
	return named("diverse", pods)
}

func (d draws) generic() *corev1.Pod {
	labels := map[string]string{"my-label": d.label()}
	return pod(labels, d.requests())
}

func (d draws) spread(key string) *corev1.Pod {
	labels := map[string]string{"my-label": d.label()}
	selected := map[string]string{"my-label": d.label()}
	p := pod(labels, d.requests())
	p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule,
		LabelSelector: &metav1.LabelSelector{MatchLabels: selected},
	}}
	return p
}

// zoneAffinity is with its own kind; the label is spelled as the benchmark spells it.
func (d draws) zoneAffinity() *corev1.Pod {
	labels := map[string]string{"my-affininity": d.label()}
	p := pod(labels, d.requests())
	p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term(labels, corev1.LabelTopologyZone)},
	}}
	return p
}

// hostAntiAffinity keeps off all pods of its block.
func (d draws) hostAntiAffinity() *corev1.Pod {
	labels := map[string]string{"app": "nginx"}
	p := pod(labels, d.requests())
	p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term(labels, corev1.LabelHostname)},
	}}
	return p
}

// preferencePods are equal in size; each prefers one zone, which it can have, a zone without its kind, which it soon
// cannot, and a host without its kind.
func preferencePods(d draws, count int) []*corev1.Pod {
	size := d.requests()
	labels := map[string]string{"app": "nginx"}
	zone := corev1.NodeSelectorRequirement{
		Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"test-zone-1"},
	}
	var pods []*corev1.Pod
	for range count {
		p := pod(labels, size)
		p.Spec.Affinity = &corev1.Affinity{
			NodeAffinity: &corev1.NodeAffinity{
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
					Weight: 1, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{zone}},
				}},
			},
			PodAntiAffinity: &corev1.PodAntiAffinity{
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
					{Weight: 10, PodAffinityTerm: term(labels, corev1.LabelTopologyZone)},
					{Weight: 1, PodAffinityTerm: term(labels, corev1.LabelHostname)},
				},
			},
		}
		pods = append(pods, p)
	}
	return named("preference", pods)
}

func term(labels map[string]string, key string) corev1.PodAffinityTerm {
	return corev1.PodAffinityTerm{LabelSelector: &metav1.LabelSelector{MatchLabels: labels}, TopologyKey: key}
}

// pod is a pending pod as the API server shows it once kube-scheduler has found no node for it.
func pod(labels map[string]string, size corev1.ResourceList) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", CreationTimestamp: born, Labels: labels},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{
				Name: "app", Image: "pause",
				Resources: corev1.ResourceRequirements{Requests: size},
			}},
			RestartPolicy: corev1.RestartPolicyAlways,
			SchedulerName: corev1.DefaultSchedulerName,
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodPending,
			Conditions: []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
				LastTransitionTime: born,
			}},
		},
	}
}

// bind makes a pending pod a running one.
func bind(p *corev1.Pod, node string) {
	p.Spec.NodeName = node
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: born},
		{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: born},
	}
}

// named gives the pods names and UIDs that sort as they were drawn.
func named(prefix string, pods []*corev1.Pod) []*corev1.Pod {
	for i, p := range pods {
		p.Name = fmt.Sprintf("%s-%05d", prefix, i)
		p.UID = uid(prefix, i)
	}
	return pods
}

// uid is fixed for an index; the prefix keeps the kinds of objects apart.
func uid(prefix string, index int) types.UID {
	sum := 0
	for _, letter := range []byte(prefix) {
		sum = (sum*31 + int(letter)) & 0xffffffff
	}
	return types.UID(fmt.Sprintf("%08x-0000-4000-8000-%012x", sum, index))
}
