// Gitops-health reads objects as GitOps tools do, with the packages that the
// tools use themselves, and without a cluster.
//
//	gitops-health kstatus
//	gitops-health flux HEALTH_CHECK_EXPRS.yaml
//	gitops-health lua HEALTH.lua
//
// Standard input has objects in JSON, one after the other. Each is answered by
// one line of JSON: the tool's word for the object's health, and its message.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Set by the build: what this was built from.
var version = "unknown"

type answer struct {
	Word    string `json:"word"`
	Message string `json:"message"`
}

type reader func(*unstructured.Unstructured) (answer, error)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "gitops-health:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) == 1 && arguments[0] == "version" {
		fmt.Println(version)
		return nil
	}
	read, err := readerOf(arguments)
	if err != nil {
		return err
	}
	decoder, encoder := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		found, err := read(object)
		if err != nil {
			return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}
		if err := encoder.Encode(found); err != nil {
			return err
		}
	}
}

func readerOf(arguments []string) (reader, error) {
	if len(arguments) == 1 && arguments[0] == "kstatus" {
		return kstatus, nil
	}
	if len(arguments) == 2 && arguments[0] == "flux" {
		return flux(arguments[1])
	}
	if len(arguments) == 2 && arguments[0] == "lua" {
		return argo(arguments[1])
	}
	return nil, errors.New("usage: kstatus, flux FILE or lua FILE")
}
