package main

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	podregistry "k8s.io/kubernetes/pkg/registry/core/pod"
)

// admit makes of a manifest what the API server would store and the scheduler would see: defaults filled in, label keys
// merged into selectors, and nothing that the API server would refuse.
func admit(ctx context.Context, given *v1.Pod) (*v1.Pod, error) {
	name := given.Namespace + "/" + given.Name
	manifest := given.DeepCopy()
	legacyscheme.Scheme.Default(manifest)
	inside := &core.Pod{}
	if err := legacyscheme.Scheme.Convert(manifest, inside, nil); err != nil {
		return nil, fmt.Errorf("pod %s: %w", name, err)
	}
	podregistry.Strategy.PrepareForCreate(ctx, inside)
	if faults := podregistry.Strategy.Validate(ctx, inside); len(faults) > 0 {
		return nil, fmt.Errorf("the API server would refuse pod %s: %w", name, faults.ToAggregate())
	}
	stored := &v1.Pod{}
	if err := legacyscheme.Scheme.Convert(inside, stored, nil); err != nil {
		return nil, fmt.Errorf("pod %s: %w", name, err)
	}
	if stored.UID == "" {
		stored.UID = types.UID(name)
	}
	return stored, nil
}
