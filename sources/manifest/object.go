// Package manifest converts Kubernetes objects: Services and EndpointSlices become sources.Services, and a Node
// becomes facts about this node.
//
// Its types have only the fields that are used, under their names in YAML. So manifests can be read, and objects of
// an API server be kept, without the Kubernetes libraries. Convert is pure. It is lenient, as a client of an API
// server must be: it ignores unknown fields, and leaves out and reports what cannot be served. It does not check
// whether a service makes
// sense (sources.Validate) and which of its endpoints are used (proxy/frontend).
package manifest

import (
	"fmt"

	"github.com/svcproxy/svcproxy/sources"
)

// Metadata is what is used of an object's metadata.
type Metadata struct {
	Namespace         string `yaml:"namespace"` // "" = default
	Name              string `yaml:"name"`
	Labels            Labels `yaml:"labels"`
	DeletionTimestamp string `yaml:"deletionTimestamp"` // "" = it is not being deleted

	Origin sources.Origin `yaml:"-"`
}

// ProxyNameLabel gives an object to the proxy that its value names.
const ProxyNameLabel = "service.kubernetes.io/service-proxy-name"

// Labels are the labels that are used; nil and "" = absent. An object
// with ProxyName belongs to the proxy of that name. One with Headless, whatever its value, is only for name servers,
// even if it has a cluster IP.
type Labels struct {
	ServiceName string  `yaml:"kubernetes.io/service-name"`
	Zone        string  `yaml:"topology.kubernetes.io/zone"`
	ProxyName   *string `yaml:"service.kubernetes.io/service-proxy-name"`
	Headless    *string `yaml:"service.kubernetes.io/headless"`
}

// Of reports whether an object with these labels belongs to the proxy of this name; "" = that of those without one.
func (l Labels) Of(proxy string) bool {
	if proxy == "" {
		return l.ProxyName == nil
	}
	return l.ProxyName != nil && *l.ProxyName == proxy
}

// NotOf says why an object does not belong to the proxy of this name.
func NotOf(proxy string) string {
	if proxy == "" {
		return "its label " + ProxyNameLabel + " gives it to another proxy"
	}
	return fmt.Sprintf("its label %s is not %q (sources.apiserver.proxyName)", ProxyNameLabel, proxy)
}

// Service is what is used of a v1 Service.
type Service struct {
	Metadata Metadata      `yaml:"metadata"`
	Spec     ServiceSpec   `yaml:"spec"`
	Status   ServiceStatus `yaml:"status"`
}

// ServiceSpec is what is used of a Service's spec.
type ServiceSpec struct {
	Type                     string        `yaml:"type"`       // "" = ClusterIP
	ClusterIP                string        `yaml:"clusterIP"`  // None = headless
	ClusterIPs               []string      `yaml:"clusterIPs"` // if given, ClusterIP is ignored
	ExternalIPs              []string      `yaml:"externalIPs"`
	LoadBalancerSourceRanges []string      `yaml:"loadBalancerSourceRanges"`
	Ports                    []ServicePort `yaml:"ports"`
	ExternalTrafficPolicy    string        `yaml:"externalTrafficPolicy"` // "" = Cluster
	InternalTrafficPolicy    string        `yaml:"internalTrafficPolicy"` // "" = Cluster
	SessionAffinity          string        `yaml:"sessionAffinity"`       // "" = None
	SessionAffinityConfig    struct {
		ClientIP struct {
			TimeoutSeconds int32 `yaml:"timeoutSeconds"` // 0 = not given
		} `yaml:"clientIP"`
	} `yaml:"sessionAffinityConfig"`
	HealthCheckNodePort      int32  `yaml:"healthCheckNodePort"` // 0 = none
	PublishNotReadyAddresses bool   `yaml:"publishNotReadyAddresses"`
	TrafficDistribution      string `yaml:"trafficDistribution"`
}

// ServicePort is one port of a Service.
type ServicePort struct {
	Name       string     `yaml:"name"`
	Protocol   string     `yaml:"protocol"` // "" = TCP
	Port       int32      `yaml:"port"`
	TargetPort TargetPort `yaml:"targetPort"`
	NodePort   int32      `yaml:"nodePort"`
}

// TargetPort is the number of a port on endpoints. 0: it was not given, or by name; then EndpointSlices have it.
type TargetPort int32

// ServiceStatus is what is used of a Service's status.
type ServiceStatus struct {
	LoadBalancer struct {
		Ingress []Ingress `yaml:"ingress"`
	} `yaml:"loadBalancer"`
}

// Ingress is an address of a Service at a load balancer.
type Ingress struct {
	IP     string `yaml:"ip"`     // "" = it has a host name
	IPMode string `yaml:"ipMode"` // "" = VIP
}

// EndpointSlice is what is used of a discovery.k8s.io/v1 EndpointSlice.
type EndpointSlice struct {
	Metadata    Metadata       `yaml:"metadata"`
	AddressType string         `yaml:"addressType"` // IPv4, IPv6 or FQDN
	Endpoints   []Endpoint     `yaml:"endpoints"`
	Ports       []EndpointPort `yaml:"ports"`
}

// EndpointPort is a port of all endpoints of a slice.
type EndpointPort struct {
	Name     string `yaml:"name"`
	Protocol string `yaml:"protocol"` // "" = TCP
	Port     int32  `yaml:"port"`     // 0 = not given: the port is ignored
}

// Endpoint is an endpoint of a slice. Only its first address counts, as the API says.
type Endpoint struct {
	Addresses  []string   `yaml:"addresses"`
	Conditions Conditions `yaml:"conditions"`
	NodeName   string     `yaml:"nodeName"`
	Zone       string     `yaml:"zone"`
	Hints      Hints      `yaml:"hints"`
}

// Conditions are those of an endpoint; nil = not given.
type Conditions struct {
	Ready       *bool `yaml:"ready"`
	Serving     *bool `yaml:"serving"`
	Terminating *bool `yaml:"terminating"`
}

// Hints say which zones and nodes should use an endpoint.
type Hints struct {
	ForZones []Hint `yaml:"forZones"`
	ForNodes []Hint `yaml:"forNodes"`
}

// Hint is a zone or a node.
type Hint struct {
	Name string `yaml:"name"`
}
