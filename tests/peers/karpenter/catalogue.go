package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/scheduling"
)

// catalogue is the file that `kerf plan --catalogue` reads: the instance types of one region.
type catalogue struct {
	InstanceTypes []entry `json:"instanceTypes"`
}

type entry struct {
	Name      string              `json:"name"`
	Capacity  corev1.ResourceList `json:"capacity"`
	Overhead  corev1.ResourceList `json:"overhead"`
	Labels    map[string]values   `json:"labels"`
	Offerings []offering          `json:"offerings"`
}

// offering has its price in dollars per hour.
type offering struct {
	Zone                string  `json:"zone"`
	CapacityType        string  `json:"capacityType"`
	Price               float64 `json:"price"`
	Available           bool    `json:"available"`
	ReservationID       *string `json:"reservationID"`
	ReservationCapacity *int    `json:"reservationCapacity"`
}

// values is one label value, or several of which a machine may have any; one is written as a plain string.
type values []string

func (v values) MarshalJSON() ([]byte, error) {
	if len(v) == 1 {
		return json.Marshal(v[0])
	}
	return json.Marshal([]string(v))
}

func (v *values) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*v = values{one}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(v))
}

// inMicros rounds a price to the millionths of a dollar that Kerf counts in, so that both programs read one number.
func inMicros(price float64) float64 { return math.Round(price*1e6) / 1e6 }

func readCatalogue(folder string) (catalogue, error) {
	path := filepath.Join(folder, "catalogue.json")
	text, err := os.ReadFile(path)
	if err != nil {
		return catalogue{}, err
	}
	var read catalogue
	if err := json.Unmarshal(text, &read); err != nil {
		return catalogue{}, fmt.Errorf("%s: %w", path, err)
	}
	return read, nil
}

// instanceTypes is the catalogue as a cloud provider would give it to Karpenter. Each label that any type has is well
// known, as a provider registers its own, and is explicitly absent from the types without it.
func (c catalogue) instanceTypes() []*cloudprovider.InstanceType {
	for _, e := range c.InstanceTypes {
		for key := range e.Labels {
			v1.WellKnownLabels.Insert(key)
		}
	}
	var types []*cloudprovider.InstanceType
	for _, e := range c.InstanceTypes {
		types = append(types, e.instanceType(c.labelKeys()))
	}
	return types
}

func (c catalogue) labelKeys() []string {
	var keys []string
	for _, e := range c.InstanceTypes {
		for key := range e.Labels {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

func (e entry) instanceType(keys []string) *cloudprovider.InstanceType {
	requirements := scheduling.NewRequirements(
		scheduling.NewRequirement(corev1.LabelInstanceTypeStable, corev1.NodeSelectorOpIn, e.Name),
		scheduling.NewRequirement(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn,
			e.offered(func(o offering) string { return o.Zone })...),
		scheduling.NewRequirement(v1.CapacityTypeLabelKey, corev1.NodeSelectorOpIn,
			e.offered(func(o offering) string { return o.CapacityType })...),
	)
	for _, key := range keys {
		if named, has := e.Labels[key]; has {
			requirements.Add(scheduling.NewRequirement(key, corev1.NodeSelectorOpIn, named...))
		} else if !requirements.Has(key) {
			requirements.Add(scheduling.NewRequirement(key, corev1.NodeSelectorOpDoesNotExist))
		}
	}
	instanceType := &cloudprovider.InstanceType{
		Name:         e.Name,
		Requirements: requirements,
		Capacity:     e.Capacity,
		Overhead:     &cloudprovider.InstanceTypeOverhead{KubeReserved: e.Overhead},
	}
	for _, o := range e.Offerings {
		instanceType.Offerings = append(instanceType.Offerings, o.offering())
	}
	return instanceType
}

// offered is one trait of the offerings that can be had now.
func (e entry) offered(trait func(offering) string) []string {
	var found []string
	for _, o := range e.Offerings {
		if o.Available {
			found = append(found, trait(o))
		}
	}
	return found
}

func (o offering) offering() *cloudprovider.Offering {
	labels := map[string]string{corev1.LabelTopologyZone: o.Zone, v1.CapacityTypeLabelKey: o.CapacityType}
	built := &cloudprovider.Offering{Price: o.Price, Available: o.Available}
	if o.ReservationID != nil {
		labels[cloudprovider.ReservationIDLabel] = *o.ReservationID
	}
	if o.ReservationCapacity != nil {
		built.ReservationCapacity = *o.ReservationCapacity
	}
	built.Requirements = scheduling.NewLabelRequirements(labels)
	return built
}

// entryOf writes down an instance type of Karpenter's fake cloud.
func entryOf(it *cloudprovider.InstanceType) entry {
	e := entry{Name: it.Name, Capacity: it.Capacity, Overhead: it.Overhead.Total(), Labels: map[string]values{}}
	for key, requirement := range it.Requirements {
		derived := key == corev1.LabelInstanceTypeStable || key == corev1.LabelTopologyZone || key == v1.CapacityTypeLabelKey
		if !derived && requirement.Operator() == corev1.NodeSelectorOpIn {
			e.Labels[key] = slices.Sorted(slices.Values(requirement.Values()))
		}
	}
	for _, o := range it.Offerings {
		e.Offerings = append(e.Offerings, offering{
			Zone: o.Zone(), CapacityType: o.CapacityType(), Price: inMicros(o.Price), Available: o.Available,
		})
	}
	return e
}
