// Command probe is a client of the door that does not mind its manners: each
// line of standard input is sent as it is, and what comes back is printed.
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"os"

	"github.com/nacre-dev/nacre/internal/ipc"
)

func main() {
	client, err := ipc.Dial(context.Background(), ipc.Door())
	if err != nil {
		log.Fatal(err)
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		if err := client.Send(lines.Bytes()); err != nil {
			log.Fatal(err)
		}
		answer, err := client.Receive()
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s %s %s\n", answer.Source, answer.Correlation, answer.Payload)
	}
}
