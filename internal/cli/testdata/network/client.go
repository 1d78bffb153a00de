// Fetches what its argument says.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	answer, err := http.Get(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	body, err := io.ReadAll(answer.Body)
	fmt.Printf("go %s", body)
	if err != nil {
		os.Exit(1)
	}
}
