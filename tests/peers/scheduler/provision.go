package main

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/component-helpers/storage/volume"
)

// settle binds the claims of a pod that has just got its node, as the provisioner that waited for that pod would: each
// gets a new volume that can be reached only from the node's zone.
func (r *oracle) settle(pod *v1.Pod, on *v1.Node) error {
	for i := range pod.Spec.Volumes {
		name := claimName(pod, &pod.Spec.Volumes[i])
		if name == "" {
			continue
		}
		object, exists, _ := r.feeds.claims.GetIndexer().GetByKey(pod.Namespace + "/" + name)
		if !exists {
			return fmt.Errorf("claim %s/%s of pod %s does not exist", pod.Namespace, name, pod.Name)
		}
		if claim := object.(*v1.PersistentVolumeClaim); claim.Spec.VolumeName == "" {
			if err := r.provision(claim, on); err != nil {
				return err
			}
		}
	}
	return nil
}

// claimName is the name of the claim behind a volume, empty for volumes without one.
func claimName(pod *v1.Pod, source *v1.Volume) string {
	switch {
	case source.PersistentVolumeClaim != nil:
		return source.PersistentVolumeClaim.ClaimName
	case source.Ephemeral != nil:
		return pod.Name + "-" + source.Name
	}
	return ""
}

func (r *oracle) provision(claim *v1.PersistentVolumeClaim, on *v1.Node) error {
	if claim.Spec.StorageClassName == nil {
		return fmt.Errorf("claim %s/%s is not bound and has no class", claim.Namespace, claim.Name)
	}
	object, exists, _ := r.feeds.classes.GetIndexer().GetByKey(*claim.Spec.StorageClassName)
	if !exists {
		return fmt.Errorf("class %s of claim %s/%s does not exist", *claim.Spec.StorageClassName, claim.Namespace, claim.Name)
	}
	made := madeVolume(claim, object.(*storagev1.StorageClass), on)
	bound := claim.DeepCopy()
	bound.Spec.VolumeName = made.Name
	bound.Status.Phase = v1.ClaimBound
	if bound.Annotations == nil {
		bound.Annotations = map[string]string{}
	}
	bound.Annotations[volume.AnnBindCompleted] = "yes"
	if err := r.feeds.volumes.add(made); err != nil {
		return err
	}
	return r.feeds.claims.update(claim, bound)
}

func madeVolume(claim *v1.PersistentVolumeClaim, class *storagev1.StorageClass, on *v1.Node) *v1.PersistentVolume {
	made := &v1.PersistentVolume{}
	made.Name = "pv-" + claim.Namespace + "-" + claim.Name
	made.Spec = v1.PersistentVolumeSpec{
		AccessModes:      claim.Spec.AccessModes,
		Capacity:         claim.Spec.Resources.Requests,
		ClaimRef:         &v1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
		StorageClassName: class.Name,
	}
	made.Spec.CSI = &v1.CSIPersistentVolumeSource{Driver: class.Provisioner, VolumeHandle: made.Name}
	made.Status.Phase = v1.VolumeBound
	if zone, known := on.Labels[v1.LabelTopologyZone]; known {
		within := v1.NodeSelectorRequirement{Key: v1.LabelTopologyZone, Operator: v1.NodeSelectorOpIn, Values: []string{zone}}
		term := v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{within}}
		made.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{term}}}
	}
	return made
}
