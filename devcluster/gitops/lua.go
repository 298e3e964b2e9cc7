package main

import (
	"encoding/json"
	"fmt"
	"os"

	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	luajson "layeh.com/gopher-json"
)

// argo runs a health script in the interpreter of Argo CD, with the libraries
// that Argo CD opens for it. Argo CD itself is devcluster/argocd: minutes to build.
func argo(file string) (reader, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return func(object *unstructured.Unstructured) (answer, error) {
		state := lua.NewState(lua.Options{SkipOpenLibs: true})
		defer state.Close()
		for _, library := range []struct {
			name string
			open lua.LGFunction
		}{
			{lua.LoadLibName, lua.OpenPackage},
			{lua.BaseLibName, lua.OpenBase},
			{lua.TabLibName, lua.OpenTable},
		} {
			state.Push(state.NewFunction(library.open))
			state.Push(lua.LString(library.name))
			state.Call(1, 0)
		}
		body, err := object.MarshalJSON()
		if err != nil {
			return answer{}, err
		}
		value, err := luajson.Decode(state, body)
		if err != nil {
			return answer{}, err
		}
		state.SetGlobal("obj", value)
		if err := state.DoString(string(text)); err != nil {
			return answer{}, err
		}
		returned, err := luajson.Encode(state.Get(-1))
		if err != nil {
			return answer{}, err
		}
		var found struct{ Status, Message string }
		if err := json.Unmarshal(returned, &found); err != nil {
			return answer{}, fmt.Errorf("the script returned %s: %w", returned, err)
		}
		return answer{found.Status, found.Message}, nil
	}, nil
}
