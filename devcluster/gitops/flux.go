package main

import (
	"context"
	"fmt"
	"os"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/fluxcd/pkg/apis/kustomize"
	"github.com/fluxcd/pkg/runtime/cel"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// kstatus is what Flux, and others, read where nobody gave them expressions.
func kstatus(object *unstructured.Unstructured) (answer, error) {
	found, err := status.Compute(object)
	if err != nil {
		return answer{}, err
	}
	return answer{found.Status.String(), found.Message}, nil
}

// flux reads objects by the expressions of a Kustomization.
func flux(file string) (reader, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var given struct {
		Spec struct {
			HealthCheckExprs []kustomize.CustomHealthCheck `json:"healthCheckExprs"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(text, &given); err != nil {
		return nil, err
	}
	evaluators := map[schema.GroupKind]*cel.StatusEvaluator{}
	for _, check := range given.Spec.HealthCheckExprs {
		kind := schema.FromAPIVersionAndKind(check.APIVersion, check.Kind).GroupKind()
		evaluators[kind], err = cel.NewStatusEvaluator(&check.HealthCheckExpressions)
		if err != nil {
			return nil, err
		}
	}
	return func(object *unstructured.Unstructured) (answer, error) {
		evaluator, ok := evaluators[object.GroupVersionKind().GroupKind()]
		if !ok {
			return answer{}, fmt.Errorf("%s has no expressions for this kind", file)
		}
		found, err := evaluator.Evaluate(context.Background(), object)
		if err != nil {
			return answer{}, err
		}
		return answer{found.Status.String(), found.Message}, nil
	}, nil
}
