// Command traffic connects to where it is told by lines on standard input, and answers each
// with a line of nanoseconds:
//
//	download ADDRESS BYTES STREAMS    until all of so many streams have got their bytes
//	upload ADDRESS BYTES STREAMS      until the server has got them
//	get URL TIMES                     of each request, by a connection of its own
//
// It runs until its input ends, so that its start is in no number. The certificate that it
// trusts is the PEM file of its argument.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

const buffered = 128 << 10 // bytes

func main() {
	log.SetFlags(0)
	certificate, err := os.ReadFile(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(certificate)
	web := &http.Client{Transport: &http.Transport{
		Proxy:             proxy,
		DialContext:       dial,
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{RootCAs: trusted, ServerName: "a.example.com"},
	}}
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		words := strings.Fields(lines.Text())
		n := make([]int64, len(words))
		for i, w := range words {
			n[i], _ = strconv.ParseInt(w, 10, 64) // 0 for what is no number
		}
		switch words[0] {
		case "get":
			for range n[2] {
				fmt.Print(get(web, words[1]).Nanoseconds(), " ")
			}
			fmt.Println()
		default:
			began := time.Now()
			var all sync.WaitGroup
			for range n[3] {
				all.Go(func() { stream(words[0], words[1], n[2]) })
			}
			all.Wait()
			fmt.Println(time.Since(began).Nanoseconds())
		}
	}
}

// proxy is for sandboxes that cannot do without. That of net/http is not for localhost.
func proxy(*http.Request) (*url.URL, error) {
	at := os.Getenv("HTTP_PROXY")
	if at == "" {
		return nil, nil
	}
	return url.Parse(at)
}

// dial keeps to IPv4, since localhost may have an address of IPv6 where nobody listens.
func dial(ctx context.Context, _, at string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp4", at)
}

func get(web *http.Client, url string) time.Duration {
	began := time.Now()
	answer, err := web.Get(url)
	if err != nil {
		log.Fatal(err)
	}
	_, err = discard(answer.Body)
	took := time.Since(began)
	answer.Body.Close()
	if err != nil || answer.StatusCode != http.StatusOK {
		log.Fatal(answer.Status, err)
	}
	return took
}

func stream(direction, at string, size int64) {
	c, err := dial(context.Background(), "", at)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintln(c, direction, size)
	got, want := int64(0), size
	if direction == "upload" {
		buffer := make([]byte, buffered)
		for left := size; left > 0 && err == nil; left -= int64(len(buffer)) {
			_, err = c.Write(buffer[:min(left, int64(len(buffer)))])
		}
		want = 1
	}
	if err == nil {
		got, err = discard(c)
	}
	if err != nil || got != want {
		log.Fatalf("%d bytes of %d: %v", got, want, err)
	}
}

// discard reads to the end. io.Discard would do so by 8 KiB.
func discard(r io.Reader) (int64, error) {
	return io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{r}, make([]byte, buffered))
}
