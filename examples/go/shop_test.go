package shop

import (
	"bufio"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"testing"
)

// startSandbox starts a server in memory, on a free port, that ends with the test.
func startSandbox(t *testing.T) string {
	t.Helper()
	svc, isSet := os.LookupEnv("SVC")
	if !isSet {
		svc = "svc"
	}
	command := exec.Command(svc, "--quiet", "sandbox", "serve",
		"--addr", "127.0.0.1:0", "--in-memory", "--until-stdin-closes")
	command.Stderr = os.Stderr
	stdin, _ := command.StdinPipe()
	stdout, _ := command.StdoutPipe()
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		command.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil {
		t.Fatal("the sandbox did not start: see its error above")
	}
	var ready struct{ HTTP string }
	if err := json.Unmarshal(line, &ready); err != nil {
		t.Fatal(err)
	}
	return ready.HTTP
}

type message struct {
	Subject string
	Links   []struct{ URL string }
	Codes   []string
}

// waitFor returns the first message to an address.
func waitFor(t *testing.T, sandbox, to string) (found message) {
	t.Helper()
	response, err := http.Get(sandbox + "/_sandbox/messages/wait?timeout=5s&to=" + url.QueryEscape(to))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("no message to %s: %s", to, response.Status)
	}
	if err := json.NewDecoder(response.Body).Decode(&found); err != nil {
		t.Fatal(err)
	}
	return found
}

func TestWelcome(t *testing.T) {
	t.Parallel()
	sandbox := startSandbox(t)
	if err := SendWelcome(sandbox, "mk_test_sandbox", "ada@example.test"); err != nil {
		t.Fatal(err)
	}
	if welcome := waitFor(t, sandbox, "ada@example.test"); welcome.Subject != "Welcome" {
		t.Errorf("unexpected subject: %s", welcome.Subject)
	}
}

func TestSignature(t *testing.T) {
	body := []byte(`{"event":"email.bounced","id":"1","data":{}}`)
	mac := hmac.New(sha256.New, []byte("whsec_example"))
	mac.Write(body)
	signature := hex.EncodeToString(mac.Sum(nil))
	if !IsGenuine("whsec_example", signature, body) {
		t.Error("a genuine delivery was refused")
	}
	if IsGenuine("whsec_example", signature, append(body, ' ')) || IsGenuine("whsec_example", "", body) {
		t.Error("a forged delivery was accepted")
	}
}
