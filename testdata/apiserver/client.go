package apiserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"
)

// A Client writes objects, as text or as values that marshal to their JSON. It speaks HTTP and knows
// nothing of the library under test.
type Client struct {
	url, token string
	http       *http.Client
}

// NewClient speaks with the server at url, which has a certificate of the authority.
func NewClient(url string, authority []byte, token string) *Client {
	transport := &http.Transport{TLSClientConfig: trust(authority), ForceAttemptHTTP2: true}
	return &Client{url, token, &http.Client{Transport: transport, Timeout: 30 * time.Second}}
}

// A StatusError is an answer other than 200 to 299.
type StatusError struct {
	Code    int
	Message string
}

func (e *StatusError) Error() string { return fmt.Sprintf("%d: %s", e.Code, e.Message) }

// Get returns the body of an answer.
func (c *Client) Get(path string) ([]byte, error) { return c.do(http.MethodGet, path, "", nil) }

// An Object names what it is, as every object does.
type Object struct {
	APIVersion, Kind string
	Metadata         struct{ Namespace, Name, UID, ResourceVersion string }
}

// resources has the plural of the kinds that tests write.
var resources = map[string]string{
	"Service": "services", "EndpointSlice": "endpointslices", "Node": "nodes", "Namespace": "namespaces",
	"ServiceAccount": "serviceaccounts", "ClusterRole": "clusterroles", "ClusterRoleBinding": "clusterrolebindings",
}

func (o Object) namespaced() bool {
	switch o.Kind {
	case "Service", "EndpointSlice", "ServiceAccount":
		return true
	}
	return false
}

// folder is the path of the collection that the object is in.
func (o Object) folder() (string, error) {
	resource, ok := resources[o.Kind]
	if !ok {
		return "", fmt.Errorf("kind %q is not one that tests write", o.Kind)
	}
	prefix := "/apis/" + o.APIVersion
	if o.APIVersion == "v1" {
		prefix = "/api/v1"
	}
	if o.namespaced() {
		namespace := o.Metadata.Namespace
		if namespace == "" {
			namespace = "default"
		}
		prefix += "/namespaces/" + namespace
	}
	return prefix + "/" + resource, nil
}

func (o Object) path() (string, error) {
	folder, err := o.folder()
	return folder + "/" + url.PathEscape(o.Metadata.Name), err
}

// Apply makes each object of a YAML stream what the text says, its status included. It returns when
// the server has acknowledged the last.
func (c *Client) Apply(text string) error {
	objects, err := parse(text)
	if err != nil {
		return err
	}
	for _, o := range objects {
		if err := c.apply(o); err != nil {
			return fmt.Errorf("apply %s %s: %w", o.Kind, o.Metadata.Name, err)
		}
	}
	return nil
}

const applyPatch = "application/apply-patch+yaml"

func (c *Client) apply(o document) error {
	path, err := o.path()
	if err != nil {
		return err
	}
	const query = "?fieldManager=tests&force=true"
	if _, err := c.do(http.MethodPatch, path+query, applyPatch, o.json); err != nil || !o.hasStatus {
		return err
	}
	_, err = c.do(http.MethodPatch, path+"/status"+query, applyPatch, o.json)
	return err
}

// Delete removes each object of a YAML stream; one that is not there is no error.
func (c *Client) Delete(text string) error {
	objects, err := parse(text)
	if err != nil {
		return err
	}
	for _, o := range objects {
		if err := c.delete(o.Object); err != nil {
			return fmt.Errorf("delete %s %s: %w", o.Kind, o.Metadata.Name, err)
		}
	}
	return nil
}

func (c *Client) delete(o Object) error {
	path, err := o.path()
	if err != nil {
		return err
	}
	_, err = c.do(http.MethodDelete, path, "", nil)
	var status *StatusError
	if errors.As(err, &status) && status.Code == http.StatusNotFound {
		return nil
	}
	return err
}

// Create makes new objects from values, some of them at once: several times faster than Apply, for many.
func (c *Client) Create(objects ...any) error {
	const writers = 4
	var errs [writers]error
	var group sync.WaitGroup
	for i := range writers {
		group.Go(func() {
			errs[i] = c.each(http.MethodPost, objects[i*len(objects)/writers:(i+1)*len(objects)/writers])
		})
	}
	group.Wait()
	return errors.Join(errs[:]...)
}

// Update replaces objects from values. Whoever changed them meanwhile loses.
func (c *Client) Update(objects ...any) error { return c.each(http.MethodPut, objects) }

func (c *Client) each(method string, objects []any) error {
	for _, value := range objects {
		body, err := json.Marshal(value)
		if err != nil {
			return err
		}
		var o Object
		if err := json.Unmarshal(body, &o); err != nil {
			return err
		}
		path, err := o.folder()
		if method == http.MethodPut {
			path, err = o.path()
		}
		if err == nil {
			_, err = c.do(method, path, "application/json", body)
		}
		if err != nil {
			return fmt.Errorf("%s %s %s: %w", method, o.Kind, o.Metadata.Name, err)
		}
	}
	return nil
}

// Find reads an object's metadata.
func (c *Client) Find(apiVersion, kind, namespace, name string) (Object, error) {
	o := Object{APIVersion: apiVersion, Kind: kind}
	o.Metadata.Namespace, o.Metadata.Name = namespace, name
	path, err := o.path()
	if err != nil {
		return o, err
	}
	body, err := c.Get(path)
	if err != nil {
		return o, err
	}
	return o, json.Unmarshal(body, &o)
}

// Clear removes all objects of a kind in a namespace; "" is the default namespace. It keeps the
// service kubernetes, which the API server would create again.
func (c *Client) Clear(apiVersion, kind, namespace string) error {
	o := Object{APIVersion: apiVersion, Kind: kind}
	o.Metadata.Namespace = namespace
	folder, err := o.folder()
	if err != nil {
		return err
	}
	_, err = c.do(http.MethodDelete, folder+"?labelSelector=component!%3Dapiserver", "", nil)
	return err
}

func (c *Client) do(method, path, contentType string, body []byte) ([]byte, error) {
	request, err := http.NewRequest(method, c.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	r, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	content, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if r.StatusCode < 200 || r.StatusCode > 299 {
		return nil, &StatusError{r.StatusCode, strings.TrimSpace(string(content))}
	}
	return content, nil
}

// A document is an object as the API server reads it.
type document struct {
	Object
	json      []byte
	hasStatus bool
}

func parse(text string) ([]document, error) {
	var objects []document
	for d := yaml.NewDecoder(strings.NewReader(text)); ; {
		var fields map[string]any
		if err := d.Decode(&fields); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, fmt.Errorf("object %d: %w", len(objects)+1, err)
		}
		if len(fields) == 0 {
			continue // between two separators
		}
		body, err := json.Marshal(fields)
		if err != nil {
			return nil, err
		}
		_, hasStatus := fields["status"]
		o := document{json: body, hasStatus: hasStatus}
		if err := json.Unmarshal(body, &o.Object); err != nil {
			return nil, err
		}
		objects = append(objects, o)
	}
}
