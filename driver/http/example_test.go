package httpdriver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"

	"github.com/nacre-dev/nacre"
	httpdriver "github.com/nacre-dev/nacre/driver/http"
)

func Example() {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"asked":%q}`, r.URL.RequestURI())
	}))
	defer service.Close()

	driver, err := httpdriver.New(httpdriver.Endpoint{
		Method:  "GET",
		URL:     service.URL + "/customers/{id}/invoices?state={state}&limit={limit}",
		Secrets: map[string]nacre.Secret{"Authorization": nacre.NewSecret("Bearer from-the-key-store")},
	}, httpdriver.Options{
		Cleartext: true, // this service is on this host; without these two lines it is not reached
		Allow:     []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer driver.CloseIdle()
	result, err := driver.Do(context.Background(), nacre.Invocation{Arguments: json.RawMessage(`{"id":"C-42","state":"unpaid"}`)})
	fmt.Println(string(result), err)
	// Output: {"asked":"/customers/C-42/invoices?state=unpaid"} <nil>
}
