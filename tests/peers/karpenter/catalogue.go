package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/scheduling"
)

func init() {
	// The fake cloud names its own label; the catalogue's reservations are EC2's.
	cloudprovider.ReservationIDLabel = "karpenter.k8s.aws/capacity-reservation-id"
}

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

// offering has its price in dollars per hour. One that does not say so is available.
type offering struct {
	Zone                string            `json:"zone"`
	CapacityType        string            `json:"capacityType"`
	Price               json.Number       `json:"price"`
	Available           *bool             `json:"available"`
	ReservationID       *string           `json:"reservationID"`
	ReservationCapacity *int              `json:"reservationCapacity"`
	Labels              map[string]string `json:"labels,omitempty"`
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

// priced rounds a price to the millionths of a dollar that Kerf counts in, so that both programs read one number.
func priced(price float64) json.Number { return json.Number(dollars(micros(price))) }

func (o offering) available() bool { return o.Available == nil || *o.Available }

// labels are those that a node gets from the offering rather than from its type.
func (o offering) labels() map[string]string {
	labels := map[string]string{}
	maps.Copy(labels, o.Labels)
	if o.ReservationID != nil {
		labels[cloudprovider.ReservationIDLabel] = *o.ReservationID
	}
	return labels
}

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

// instanceTypes is the catalogue as a cloud provider would give it to Karpenter: each label that any type or offering
// has is well known, as a provider registers its own, and is explicitly absent where it is not.
func (c catalogue) instanceTypes() ([]*cloudprovider.InstanceType, error) {
	ofTypes, ofOfferings := c.labelKeys()
	v1.WellKnownLabels.Insert(ofTypes...)
	v1.WellKnownLabels.Insert(ofOfferings...)
	var types []*cloudprovider.InstanceType
	for _, e := range c.InstanceTypes {
		it, err := e.instanceType(ofTypes, ofOfferings)
		if err != nil {
			return nil, err
		}
		types = append(types, it)
	}
	return types, nil
}

func (c catalogue) labelKeys() (ofTypes, ofOfferings []string) {
	types, offerings := map[string]bool{}, map[string]bool{}
	for _, e := range c.InstanceTypes {
		for key := range e.Labels {
			types[key] = true
		}
		for _, o := range e.Offerings {
			for key := range o.labels() {
				offerings[key] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(types)), slices.Sorted(maps.Keys(offerings))
}

func (e entry) instanceType(ofTypes, ofOfferings []string) (*cloudprovider.InstanceType, error) {
	requirements := scheduling.NewRequirements(
		in(corev1.LabelInstanceTypeStable, e.Name),
		in(corev1.LabelTopologyZone, e.offered(func(o offering) string { return o.Zone })...),
		in(v1.CapacityTypeLabelKey, e.offered(func(o offering) string { return o.CapacityType })...),
	)
	for _, key := range ofTypes {
		requirements.Add(in(key, e.Labels[key]...))
	}
	for _, key := range ofOfferings {
		requirements.Add(in(key, e.offered(func(o offering) string { return o.labels()[key] })...))
	}
	it := &cloudprovider.InstanceType{
		Name:         e.Name,
		Requirements: requirements,
		Capacity:     e.Capacity,
		Overhead:     &cloudprovider.InstanceTypeOverhead{KubeReserved: e.Overhead},
	}
	for i, o := range e.Offerings {
		built, err := o.offering(ofOfferings)
		if err != nil {
			return nil, fmt.Errorf("%s, offering %d: %w", e.Name, i, err)
		}
		it.Offerings = append(it.Offerings, built)
	}
	return it, nil
}

// in wants one of the values, or the label's absence where there is none.
func in(key string, values ...string) *scheduling.Requirement {
	if len(values) == 0 {
		return scheduling.NewRequirement(key, corev1.NodeSelectorOpDoesNotExist)
	}
	return scheduling.NewRequirement(key, corev1.NodeSelectorOpIn, values...)
}

// offered is one trait of the offerings that can be had now, where they have it.
func (e entry) offered(trait func(offering) string) []string {
	var found []string
	for _, o := range e.Offerings {
		if value := trait(o); value != "" && o.available() {
			found = append(found, value)
		}
	}
	return found
}

func (o offering) offering(keys []string) (*cloudprovider.Offering, error) {
	price, err := o.Price.Float64()
	if err != nil {
		return nil, err
	}
	built := &cloudprovider.Offering{Price: price, Available: o.available()}
	built.Requirements = scheduling.NewRequirements(
		in(corev1.LabelTopologyZone, o.Zone), in(v1.CapacityTypeLabelKey, o.CapacityType))
	for _, key := range keys {
		if value, has := o.labels()[key]; has {
			built.Requirements.Add(in(key, value))
		} else {
			built.Requirements.Add(in(key))
		}
	}
	if o.ReservationCapacity != nil {
		built.ReservationCapacity = *o.ReservationCapacity
	}
	return built, nil
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
			Zone: o.Zone(), CapacityType: o.CapacityType(), Price: priced(o.Price), Available: &o.Available,
		})
	}
	return e
}
