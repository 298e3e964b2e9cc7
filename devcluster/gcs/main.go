// Gcs-server is Google Cloud Storage over a folder: fake-gcs-server, with a door
// that it has not. It refuses who is not known.
//
//	gcs-server ADDRESS FOLDER TOKEN PUBLIC_KEY.pem
//
// Each folder in FOLDER is a bucket. A request needs TOKEN, which the metadata
// server of a pod with workload identity would give, or a token of its own that
// the private key of a service account has signed.
package main

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"strings"

	"github.com/fsouza/fake-gcs-server/fakestorage"
)

// Set by the build: what this was built from.
var version = "unknown"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "gcs-server:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) == 1 && arguments[0] == "version" {
		fmt.Println(version)
		return nil
	}
	if len(arguments) != 4 {
		return errors.New("usage: ADDRESS FOLDER TOKEN PUBLIC_KEY.pem")
	}
	address, folder, token := arguments[0], arguments[1], arguments[2]
	key, err := publicKey(arguments[3])
	if err != nil {
		return err
	}
	server, err := fakestorage.NewServerWithOptions(fakestorage.Options{
		NoListener:  true,
		StorageRoot: folder,
		PublicHost:  address,
	})
	if err != nil {
		return err
	}
	guarded := http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		given, found := strings.CutPrefix(request.Header.Get("Authorization"), "Bearer ")
		if !found || given != token && !isSigned(given, key) {
			answer.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(answer, "<Error><Code>AuthenticationRequired</Code></Error>")
			return
		}
		// It takes a plain PUT, as Google's XML API does, for a signed one alone.
		if query := request.URL.Query(); request.Method == http.MethodPut && !query.Has("uploadType") {
			query.Set("X-Goog-Algorithm", "GOOG4-RSA-SHA256")
			request.URL.RawQuery = query.Encode()
			answer.Header().Set("ETag", `"none"`)
		}
		server.HTTPHandler().ServeHTTP(answer, request)
	})
	log.Printf("listening on %s", address)
	return http.ListenAndServe(address, guarded)
}

func publicKey(file string) (*rsa.PublicKey, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s is no PEM", file)
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	key, isRSA := parsed.(*rsa.PublicKey)
	if !isRSA {
		return nil, fmt.Errorf("%s is no RSA key", file)
	}
	return key, nil
}

// isSigned says whether a JSON web token was signed by the key (RS256).
func isSigned(token string, key *rsa.PublicKey) bool {
	signed, signature, found := cutLast(token, ".")
	if !found {
		return false
	}
	bytes, err := base64.RawURLEncoding.DecodeString(signature)
	if err != nil {
		return false
	}
	digest := sha256.Sum256([]byte(signed))
	return rsa.VerifyPKCS1v15(key, crypto.SHA256, digest[:], bytes) == nil
}

func cutLast(text, separator string) (string, string, bool) {
	at := strings.LastIndex(text, separator)
	if at < 0 {
		return text, "", false
	}
	return text[:at], text[at+len(separator):], true
}
