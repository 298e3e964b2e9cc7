// Argocd-health runs Argo CD's own engine for health scripts: the program that
// reads the ConfigMap argocd-cm in a cluster, without the cluster.
//
// The first argument is the value that users write into argocd-cm, a Lua script.
// Standard input has objects in JSON, one after the other. Each is answered by
// one line of JSON: the word for the object's health, and the message.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/argoproj/argo-cd/v3/pkg/apis/application/v1alpha1"
	"github.com/argoproj/argo-cd/v3/util/lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Set by the build: what this was built from.
var version = "unknown"

func main() {
	if os.Args[1] == "version" {
		fmt.Println(version)
		return
	}
	if err := answer(os.Args[1], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func answer(file string, objects io.Reader, answers io.Writer) error {
	script, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	decoder, encoder := json.NewDecoder(objects), json.NewEncoder(answers)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		// Without useOpenLibs, as argocd-cm has it unless somebody opens the libraries.
		own := v1alpha1.ResourceOverride{HealthLua: string(script)}
		key := lua.GetConfigMapKey(object.GroupVersionKind())
		found, err := lua.ResourceHealthOverrides{key: own}.GetResourceHealth(object)
		if err != nil {
			return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}
		word := map[string]string{"word": string(found.Status), "message": found.Message}
		if err := encoder.Encode(word); err != nil {
			return err
		}
	}
}
