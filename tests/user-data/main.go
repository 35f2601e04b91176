// Reads the user data of cases.yaml as EKS' nodeadm and as Karpenter do, with the libraries that they use, and writes the results
// as JSON. The results are data of the tests in crates/machine and agent; run it again after a change of cases.yaml:
//
//	go run . < cases.yaml > results.json
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"mime"
	"mime/multipart"
	"net/mail"
	"os"
	"strings"

	karpenter "github.com/aws/karpenter-provider-aws/pkg/providers/amifamily/bootstrap/mime"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/yaml"
)

// testCase is one entry of cases.yaml.
type testCase struct {
	Name   string `json:"name"`
	Text   string `json:"text"`
	Base64 []byte `json:"base64"`
}

// result is what both programs make of one case.
type result struct {
	Name string `json:"name"`
	// The NodeConfigs that nodeadm merges, or why it refuses the user data.
	Nodeadm      []json.RawMessage `json:"nodeadm,omitempty"`
	NodeadmError string            `json:"nodeadmError,omitempty"`
	// The parts that Karpenter puts before its own NodeConfig, or why it launches nothing.
	Karpenter      []part `json:"karpenter,omitempty"`
	KarpenterError string `json:"karpenterError,omitempty"`
}

// part is one part of a MIME document.
type part struct {
	Type    string `json:"type"`
	Content string `json:"content"`
}

func main() {
	input, err := io.ReadAll(os.Stdin)
	if err != nil {
		log.Fatal(err)
	}
	var cases []testCase
	if err := yaml.UnmarshalStrict(input, &cases); err != nil {
		log.Fatal(err)
	}
	results := make([]result, 0, len(cases))
	for _, one := range cases {
		results = append(results, evaluate(one))
	}
	output := json.NewEncoder(os.Stdout)
	output.SetEscapeHTML(false)
	output.SetIndent("", " ")
	if err := output.Encode(results); err != nil {
		log.Fatal(err)
	}
}

func evaluate(one testCase) result {
	data := one.Base64
	if data == nil {
		data = []byte(one.Text)
	}
	found := result{Name: one.Name}
	configs, err := nodeadm(data)
	if err != nil {
		found.NodeadmError = err.Error()
	} else {
		found.Nodeadm = configs
	}
	parts, err := karpenterParts(string(data))
	if err != nil {
		found.KarpenterError = err.Error()
	} else {
		found.Karpenter = parts
	}
	return found
}

// nodeadm returns the NodeConfigs of user data in the order in which nodeadm merges them: base64, gzip, then multipart or one document.
func nodeadm(data []byte) ([]json.RawMessage, error) {
	data, err := unpack(data)
	if err != nil {
		return nil, err
	}
	reader, err := multipartReader(data)
	if err != nil {
		config, err := nodeConfig(data)
		return []json.RawMessage{config}, err
	}
	var configs []json.RawMessage
	for {
		next, err := reader.NextPart()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		config, err := fromPart(next)
		if err != nil {
			return nil, err
		}
		if config != nil {
			configs = append(configs, config)
		}
	}
	if len(configs) == 0 {
		return nil, errors.New("no NodeConfig")
	}
	return configs, nil
}

func multipartReader(data []byte) (*multipart.Reader, error) {
	message, err := mail.ReadMessage(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	kind, parameters, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(kind, "multipart/") {
		return nil, errors.New("not multipart")
	}
	return multipart.NewReader(message.Body, parameters["boundary"]), nil
}

// fromPart returns nil for a part of another type.
func fromPart(next *multipart.Part) (json.RawMessage, error) {
	header := next.Header.Get("Content-Type")
	if header == "" {
		return nil, nil
	}
	kind, _, err := mime.ParseMediaType(header)
	if err != nil {
		return nil, err
	}
	if kind != "application/node.eks.aws" {
		return nil, nil
	}
	body, err := io.ReadAll(next)
	if err != nil {
		return nil, err
	}
	if body, err = unpack(body); err != nil {
		return nil, err
	}
	return nodeConfig(body)
}

func unpack(data []byte) ([]byte, error) {
	decoded := make([]byte, base64.StdEncoding.DecodedLen(len(data)))
	if length, err := base64.StdEncoding.Decode(decoded, data); err == nil {
		data = decoded[:length]
	}
	if !bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		return data, nil
	}
	reader, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(reader)
}

// nodeConfig decodes one document with the decoder of Kubernetes objects.
func nodeConfig(data []byte) (json.RawMessage, error) {
	version := schema.GroupVersion{Group: "node.eks.aws", Version: "v1alpha1"}
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(version, &NodeConfig{})
	object, kind, err := serializer.NewCodecFactory(scheme).UniversalDeserializer().Decode(data, nil, nil)
	if err != nil {
		return nil, err
	}
	if kind.Kind != "NodeConfig" || kind.Group != version.Group {
		return nil, fmt.Errorf("unexpected %s", kind)
	}
	return json.Marshal(object)
}

// karpenterParts returns the parts that Karpenter makes of spec.userData of an EC2NodeClass of family AL2023.
func karpenterParts(text string) ([]part, error) {
	if text == "" {
		return nil, nil
	}
	trimmed := strings.TrimSpace(text)
	if strings.HasPrefix(trimmed, "MIME-Version:") || strings.HasPrefix(trimmed, "Content-Type:") {
		archive, err := karpenter.NewArchive(text)
		if err != nil {
			return nil, err
		}
		var parts []part
		for _, entry := range archive {
			parts = append(parts, part{Type: string(entry.ContentType), Content: entry.Content})
		}
		return parts, nil
	}
	if yaml.Unmarshal([]byte(text), &map[string]any{}) == nil {
		return []part{{Type: string(karpenter.ContentTypeNodeConfig), Content: text}}, nil
	}
	return []part{{Type: string(karpenter.ContentTypeShellScript), Content: text}}, nil
}

// NodeConfig has the fields of node.eks.aws/v1alpha1, with the types that nodeadm decodes them into.
type NodeConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`
	Spec              Spec `json:"spec,omitzero"`
}

type Spec struct {
	Cluster struct {
		Name                 string `json:"name,omitempty"`
		APIServerEndpoint    string `json:"apiServerEndpoint,omitempty"`
		CertificateAuthority []byte `json:"certificateAuthority,omitempty"`
		CIDR                 string `json:"cidr,omitempty"`
		EnableOutpost        *bool  `json:"enableOutpost,omitempty"`
		ID                   string `json:"id,omitempty"`
	} `json:"cluster,omitzero"`
	Containerd struct {
		Config          string                          `json:"config,omitempty"`
		BaseRuntimeSpec map[string]runtime.RawExtension `json:"baseRuntimeSpec,omitempty"`
	} `json:"containerd,omitzero"`
	Instance struct {
		LocalStorage struct {
			Strategy       string   `json:"strategy,omitempty"`
			MountPath      string   `json:"mountPath,omitempty"`
			DisabledMounts []string `json:"disabledMounts,omitempty"`
		} `json:"localStorage,omitzero"`
		Storage struct {
			Volumes []Volume `json:"volumes,omitempty"`
		} `json:"storage,omitzero"`
		Environment map[string]map[string]string `json:"environment,omitempty"`
		Network     struct {
			Nameservers []string `json:"nameservers,omitempty"`
			Domains     []string `json:"domains,omitempty"`
		} `json:"network,omitzero"`
	} `json:"instance,omitzero"`
	Kubelet struct {
		Config            map[string]runtime.RawExtension `json:"config,omitempty"`
		Flags             []string                        `json:"flags,omitempty"`
		MaxPodsExpression string                          `json:"maxPodsExpression,omitempty"`
	} `json:"kubelet,omitzero"`
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
}

// Volume is an EBS volume. The first releases with volumes had a list of targets.
type Volume struct {
	Device       string   `json:"device"`
	MountTarget  string   `json:"mountTarget,omitempty"`
	MountTargets []string `json:"mountTargets,omitempty"`
	FsType       string   `json:"fsType,omitempty"`
}

func (config *NodeConfig) DeepCopyObject() runtime.Object {
	copied := *config
	return &copied
}
