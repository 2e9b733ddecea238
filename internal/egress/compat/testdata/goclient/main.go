// Command goclient is Go's own HTTP client, which takes its proxy and its
// authorities from the environment.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: goclient METHOD URL")
		os.Exit(2)
	}
	request, err := http.NewRequest(os.Args[1], os.Args[2], strings.NewReader(strings.Repeat("x", 1<<20)))
	if err == nil && os.Args[1] == http.MethodGet {
		request.Body, request.ContentLength = nil, 0
	}
	check(err)
	response, err := http.DefaultClient.Do(request)
	check(err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	check(err)
	fmt.Println(response.Proto, response.StatusCode, string(body))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
