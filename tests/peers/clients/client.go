// Uses the generated client for Go.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	"client/generated"
)

func client(key string) *generated.APIClient {
	configuration := generated.NewConfiguration()
	configuration.Servers[0].URL = os.Getenv("SANDBOX_URL")
	if key != "" {
		configuration.AddDefaultHeader("Authorization", "Bearer "+key)
	}
	return generated.NewAPIClient(configuration)
}

func check(is bool, what string, values ...any) {
	if !is {
		panic(fmt.Sprintln(append([]any{what}, values...)...))
	}
}

// must returns the data of a response, or ends with the error of the service.
func must[T any](data T, response *http.Response, err error) T {
	check(err == nil, "failed:", err)
	return data
}

func mail(subject string) generated.CreateEmail {
	to := "cy@example.test"
	email := generated.NewCreateEmail("Shop <hello@sandbox.test>", generated.CreateEmailTo{String: &to}, subject)
	email.SetText("Your code is 482913.")
	return *email
}

func main() {
	ctx := context.Background()
	email, sandbox := client("mk_test_sandbox"), client("")

	// Send, and read a delivered email.
	sent := must(email.EmailsAPI.EmailsSend(ctx).CreateEmail(mail("Your code")).Execute())
	message := must(sandbox.SandboxMessagesAPI.SandboxMessagesWait(ctx).To("cy@example.test").Timeout("30s").Execute())
	check(len(message.Codes) == 1 && message.Codes[0] == "482913", "codes:", message.Codes)
	check(message.GetEmailId() == sent.Id, "the email of the message:", message.GetEmailId())
	settled := must(sandbox.SandboxServerAPI.SandboxSettle(ctx).Settle(*generated.NewSettle()).Execute())
	check(settled.Settled, "not settled")
	found := must(email.EmailsAPI.EmailsGet(ctx, sent.Id).Execute())
	check(found.Status == generated.EMAILSTATUS_DELIVERED, "status:", found.Status)
	check(found.GetText() == "Your code is 482913.", "text:", found.GetText())

	// A batch, a list, and a deletion.
	emails := []generated.CreateEmail{mail("First"), mail("Second")}
	batch := must(email.EmailsAPI.EmailsSendBatch(ctx).CreateEmails(generated.CreateEmails{ArrayOfCreateEmail: &emails}).Execute())
	check(len(batch.Results) == 2, "results:", batch.Results)
	must(sandbox.SandboxServerAPI.SandboxSettle(ctx).Settle(*generated.NewSettle()).Execute())
	list := func() []generated.EmailStoryMessagesInner {
		return must(sandbox.SandboxMessagesAPI.SandboxMessagesList(ctx).To("cy@example.test").Execute()).Data
	}
	check(len(list()) == 3, "messages:", list())
	_, err := sandbox.SandboxMessagesAPI.SandboxMessagesClear(ctx).To("cy@example.test").Execute()
	check(err == nil && len(list()) == 0, "deletion:", err)

	// A fault, and the error of the service.
	fault := generated.NewCreateFault()
	fault.SetOperation("emails.send")
	fault.SetStatus(429)
	added := must(sandbox.SandboxFaultsAPI.SandboxFaultsAdd(ctx).CreateFault(*fault).Execute())
	_, response, err := email.EmailsAPI.EmailsSend(ctx).CreateEmail(mail("Refused")).Execute()
	check(err != nil && response.StatusCode == 429, "fault:", err)
	problem := err.(*generated.GenericOpenAPIError).Model().(generated.Error)
	check(problem.Error.Code == generated.ERRORCODE_RATE_LIMITED, "code:", problem.Error.Code)
	check(len(must(sandbox.SandboxFaultsAPI.SandboxFaultsGet(ctx, added.Id).Execute()).Hits) == 1, "hits")

	// The clock.
	change := func(set func(*generated.ClockChange)) time.Time {
		body := generated.NewClockChange()
		set(body)
		return must(sandbox.SandboxServerAPI.SandboxClockChange(ctx).ClockChange(*body).Execute()).Now
	}
	frozen := change(func(body *generated.ClockChange) { body.SetFreeze(true) })
	later := change(func(body *generated.ClockChange) { body.SetAdvance("24h") })
	check(later.Sub(frozen) == 24*time.Hour, "clock:", frozen, later)
	change(func(body *generated.ClockChange) { body.SetResume(true) })

	// A key with one scope.
	body := generated.NewCreateKey("email")
	body.SetScopes([]string{"emails:read"})
	key := must(sandbox.SandboxKeysAPI.SandboxKeysCreate(ctx).CreateKey(*body).Execute())
	reader := client(key.GetKey())
	check(must(reader.EmailsAPI.EmailsGet(ctx, sent.Id).Execute()).Id == sent.Id, "another email")
	_, response, _ = reader.EmailsAPI.EmailsSend(ctx).CreateEmail(mail("Refused")).Execute()
	check(response.StatusCode == 403, "scope:", response.Status)
	_, err = sandbox.SandboxKeysAPI.SandboxKeysRevoke(ctx, key.Id).Execute()
	check(err == nil, "revoked:", err)
	fmt.Println("Go: the generated client works")
}
