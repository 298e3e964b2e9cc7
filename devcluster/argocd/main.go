// Argocd-engine runs what Argo CD itself runs over objects, without a cluster.
//
//	argocd-engine health HEALTH.lua
//	argocd-engine diff
//
// Standard input has objects in JSON, one after the other, and each is answered
// by one line of JSON. `health` runs the script as argocd-cm would have it run:
// the word for the object's health, and its message. `diff` takes pairs, an
// object as in Git and the same as in the cluster: whether Argo CD would call it
// OutOfSync, and what it expects in the cluster.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/argoproj/argo-cd/gitops-engine/pkg/diff"
	"github.com/argoproj/argo-cd/v3/pkg/apis/application/v1alpha1"
	"github.com/argoproj/argo-cd/v3/util/lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Set by the build: what this was built from.
var version = "unknown"

func main() {
	if err := run(os.Args[1:], json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)); err != nil {
		fmt.Fprintln(os.Stderr, "argocd-engine:", err)
		os.Exit(1)
	}
}

func run(arguments []string, objects *json.Decoder, answers *json.Encoder) error {
	if len(arguments) == 1 && arguments[0] == "version" {
		fmt.Println(version)
		return nil
	}
	if len(arguments) == 1 && arguments[0] == "diff" {
		return eachAnswered(objects, answers, func(inGit *unstructured.Unstructured) (any, error) {
			inCluster := &unstructured.Unstructured{}
			if err := objects.Decode(inCluster); err != nil {
				return nil, err
			}
			return difference(inGit, inCluster)
		})
	}
	if len(arguments) == 2 && arguments[0] == "health" {
		script, err := os.ReadFile(arguments[1])
		if err != nil {
			return err
		}
		return eachAnswered(objects, answers, func(object *unstructured.Unstructured) (any, error) {
			return health(object, string(script))
		})
	}
	return errors.New("usage: health FILE or diff")
}

func eachAnswered(
	objects *json.Decoder,
	answers *json.Encoder,
	answer func(*unstructured.Unstructured) (any, error),
) error {
	for {
		object := &unstructured.Unstructured{}
		if err := objects.Decode(object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		found, err := answer(object)
		if err != nil {
			return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}
		if err := answers.Encode(found); err != nil {
			return err
		}
	}
}

func health(object *unstructured.Unstructured, script string) (any, error) {
	// Without useOpenLibs, as argocd-cm has it unless somebody opens the libraries.
	own := v1alpha1.ResourceOverride{HealthLua: script}
	key := lua.GetConfigMapKey(object.GroupVersionKind())
	found, err := lua.ResourceHealthOverrides{key: own}.GetResourceHealth(object)
	if err != nil {
		return nil, err
	}
	return map[string]string{"word": string(found.Status), "message": found.Message}, nil
}

func difference(inGit, inCluster *unstructured.Unstructured) (any, error) {
	found, err := diff.Diff(inGit, inCluster)
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"modified": found.Modified,
		"live":     json.RawMessage(found.NormalizedLive),
		"expected": json.RawMessage(found.PredictedLive),
	}, nil
}
