package main

import (
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// cluster is one line of input.
type cluster struct {
	// Seed and Variant only name the cluster in the answer.
	Seed    uint64 `json:"seed"`
	Variant string `json:"variant"`

	Nodes []node `json:"nodes"`
	// Bound are pods that run already; spec.nodeName says where.
	Bound []v1.Pod `json:"bound"`
	// DaemonSets put a pod on each node that lacks one, as their controller would, before anything else is placed.
	DaemonSets []appsv1.DaemonSet `json:"daemonSets"`
	// Pods are the placements to check, in the order in which kube-scheduler is said to be able to make them.
	Pods []placement `json:"pods"`
	// Pending are pods that are said to have no place on any existing node.
	Pending []v1.Pod `json:"pending"`

	Namespaces             []v1.Namespace             `json:"namespaces"`
	PersistentVolumes      []v1.PersistentVolume      `json:"persistentVolumes"`
	PersistentVolumeClaims []v1.PersistentVolumeClaim `json:"persistentVolumeClaims"`
	StorageClasses         []storagev1.StorageClass   `json:"storageClasses"`
	CSINodes               []storagev1.CSINode        `json:"csiNodes"`
}

// node is a Node, and whether it is ready, on its way, or only planned.
type node struct {
	v1.Node
	Planned  bool `json:"planned"`
	Arriving bool `json:"arriving"`
}

type placement struct {
	Pod  v1.Pod `json:"pod"`
	Node string `json:"node"`
}

// caseResult is one line of output.
type caseResult struct {
	Seed    uint64 `json:"seed"`
	Variant string `json:"variant"`
	// Disagreements are placements, or DaemonSet pods of planned nodes, that kube-scheduler would not make.
	Disagreements []disagreement `json:"disagreements"`
	// Missed are pending pods with a ready node on which kube-scheduler would put them.
	Missed []place `json:"missed"`
	// Roomy are pending pods with a planned or arriving node on which kube-scheduler would put them.
	Roomy []place `json:"roomy"`
}

type disagreement struct {
	Pod     string   `json:"pod"`
	Node    string   `json:"node"`
	Plugin  string   `json:"plugin"`
	Reasons []string `json:"reasons"`
}

type place struct {
	Pod  string `json:"pod"`
	Node string `json:"node"`
}
