//! Who gets no email of `svc bulk send`, because a row of the address may say so.

#[cfg(unix)]
use crate::pty::Terminal;
use crate::support::{Home, Run};

fn send(home: &Home, rows: &str, more: &[&str]) -> Run {
    let send = [
        "--sandbox",
        "bulk",
        "send",
        "-",
        "--yes",
        "--again",
        "--from",
        "hello@sandbox.test",
    ];
    let text = ["--subject", "s", "--text", "t"];
    home.run_with_input(&[&send[..], &text, more].concat(), rows)
}

/// How many emails are accepted, and how many rows are left out, of these as invalid.
fn counts(run: &Run) -> [u64; 3] {
    let job = run.json();
    ["accepted", "left_out", "left_out_invalid"].map(|name| job[name].as_u64().expect("a count"))
}

#[test]
fn of_two_columns_that_say_who_is_subscribed_any_one_is_enough() {
    let home = Home::new();
    for header in ["Subscribed,subscribed", "subscribed,is_subscribed"] {
        let rows = format!("email,{header}\na@example.test,no,yes\nb@example.test,yes,yes\n");
        let run = send(&home, &rows, &[]);
        assert_eq!((run.code, counts(&run)), (0, [1, 1, 0]), "{run:?}");
    }

    let run = send(
        &home,
        "email,subscribed,subscribed\na@example.test,no,yes\n",
        &[],
    );
    assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{run:?}");
    assert!(
        run.stderr.contains("two columns are named `subscribed`"),
        "{run:?}"
    );

    let rows = "{\"email\":\"a@example.test\",\"subscribed\":true,\"Subscribed\":false}\n\
        {\"email\":\"A@example.test\",\"subscribed\":true}\n\
        {\"email\":\"b@example.test\",\"Subscribed\":true}\n";
    let run = send(&home, rows, &[]);
    assert_eq!((run.code, counts(&run)), (0, [1, 2, 0]), "{run:?}");
}

#[test]
fn a_column_with_a_documented_name_says_who_has_opted_out() {
    let home = Home::new();
    for (column, value, left_out) in [
        ("unsubscribed", "x", [1, 1, 0]),
        ("Opt-out", "ja", [1, 1, 0]),
        ("unsubscribed", "2026-01-02", [1, 1, 0]),
        ("unsubscribed_at", "2026-01-02", [1, 1, 0]),
        ("status", "cleaned", [1, 1, 0]),
        ("unsubscribed", "perhaps", [1, 1, 1]),
        ("unsubscribed", "-1", [1, 1, 1]),
    ] {
        let rows = format!("email,{column}\na@example.test,{value}\nb@example.test,\n");
        let run = send(&home, &rows, &[]);
        assert_eq!((run.code, counts(&run)), (0, left_out), "{rows} {run:?}");
    }

    let trial = "email,status\na@example.test,trial\n";
    let run = send(&home, trial, &[]);
    assert_eq!(
        (run.code, run.error()["code"].as_str()),
        (2, Some("opt_outs_unclear")),
        "{run:?}"
    );

    let run = send(&home, trial, &["--ignore", "status"]);
    assert_eq!((run.code, counts(&run)), (0, [1, 0, 0]), "{run:?}");
}

#[test]
fn any_other_column_that_may_say_who_has_opted_out_is_declared_or_the_file_is_refused() {
    let home = Home::new();
    for column in ["newsletter_active", "nieuwsbrief", "Werbung erlaubt"] {
        let rows = format!("email,{column}\na@example.test,no\nb@example.test,yes\n");
        let run = send(&home, &rows, &[]);
        assert_eq!(
            (run.code, run.error()["code"].as_str()),
            (2, Some("opt_outs_unclear")),
            "{run:?}"
        );
        let hint = run.error()["hint"].as_str().expect("a hint").to_owned();
        let quoted = if column.contains(' ') {
            format!("'{column}'")
        } else {
            column.to_owned()
        };
        for option in ["--opt-out", "--opt-in", "--ignore"] {
            assert!(hint.contains(&format!("{option} {quoted}")), "{hint}");
        }
        for (declared, expected) in [
            (["--opt-in", column], [1, 1, 0]),
            (["--opt-out", column], [1, 1, 0]),
            (["--ignore", column], [2, 0, 0]),
            (["--opt-out", "none"], [2, 0, 0]),
        ] {
            let run = send(&home, &rows, &declared);
            assert_eq!(
                (run.code, counts(&run)),
                (0, expected),
                "{declared:?} {run:?}"
            );
        }
    }
}

#[test]
fn an_address_that_opts_out_counts_however_it_is_spelt() {
    let home = Home::new();
    for spelt in [
        "a@example.test; other@example.test",
        "mailto:a@example.test",
        "A@example.test.",
        "<a@example.test>",
        "\u{200b}a@example.test",
        "a\u{ff20}example.test",
        "'a@example.test'",
        "'a@example.test",
        "\u{201c}a@example.test\u{201d}",
        "`a@example.test`",
        "&lt;a@example.test&gt;",
    ] {
        let rows =
            format!("email,unsubscribed\n\"{spelt}\",yes\na@example.test,no\nb@example.test,no\n");
        let run = send(&home, &rows, &[]);
        assert_eq!((run.code, counts(&run)), (0, [1, 2, 0]), "{spelt} {run:?}");

        let job = run.json()["job"].as_str().expect("an id").to_owned();
        let report = home.run(&["bulk", "report", &job]).stdout;
        let is_named = report.contains("an invisible character, U+200B, at position 1");
        assert_eq!(is_named, spelt.starts_with('\u{200b}'), "{report}");
    }

    let run = send(
        &home,
        "email,unsubscribed\nada,yes\nb@example.test,no\n",
        &[],
    );
    assert_eq!(
        (run.code, run.error()["code"].as_str()),
        (2, Some("opt_out_unreadable")),
        "{run:?}"
    );
}

/// Whatever the language, the code or a third word.
#[test]
fn a_column_with_two_kinds_of_values_is_asked_about() {
    let home = Home::new();
    for [first, second] in [
        ["J", "N"],
        ["1.0", "0.0"],
        ["1", "2"],
        ["aan", "uit"],
        ["да", "нет"],
        ["はい", "いいえ"],
        ["subscribed", "unsubscribed"],
        ["opted in", "opted out"],
        ["active", "inactive"],
        ["-", "01.02.2026"],
        ["45123", ""],
        ["gern\nc@example.test,gern", "nie wieder"],
        ["Ja\nc@example.test,weiß nicht", "Nein"],
    ] {
        let rows = format!("email,Post\na@example.test,{first}\nb@example.test,{second}\n");
        let run = send(&home, &rows, &[]);
        assert_eq!(run.code, 2, "{rows} {run:?}");
        assert_eq!(run.error()["code"], "opt_outs_unclear", "{rows}");
    }
}

/// A person says of each column what it means; the answers count like the options.
#[cfg(unix)]
#[test]
fn on_a_terminal_each_column_that_may_opt_out_is_asked_about() {
    let home = Home::new();
    let rows = "email,Newsletter,Werbung erlaubt\na@example.test,J,ja\nb@example.test,N,nein\n";
    home.file("people.csv", rows);
    let file = home.path("people.csv").display().to_string();
    let send = [
        "--sandbox",
        "bulk",
        "send",
        &file,
        "--from",
        "hello@sandbox.test",
    ];
    let send = [&send[..], &["--subject", "s", "--text", "t"]].concat();
    let ways_out = "--opt-in 'Werbung erlaubt'";

    let asked = || {
        let mut terminal = Terminal::start(&home, &send, &[], 200);
        terminal.until("the column `Newsletter` may say who gets no email (j, n)");
        terminal.until("opted [o]ut, or opted [i]n, or has it [n]othing to do with it?");
        terminal
    };

    for typed in ["\n", "\u{3}"] {
        let mut terminal = asked();
        terminal.write(typed);
        let seen = terminal.end();
        assert_eq!(
            seen.code,
            if typed == "\n" { 2 } else { 130 },
            "{}",
            seen.raw
        );
        assert!(seen.text.contains(ways_out), "{}", seen.raw);
    }

    let mut terminal = asked();
    terminal.write("y\n");
    terminal.until("`y` is not an answer: type o, i or n");
    terminal.write("n\n");
    terminal.until("the column `Werbung erlaubt` may say who gets no email (ja, nein)");
    terminal.write("i\n");
    terminal.until("Send 1 email from hello@sandbox.test to the sandbox? [y/N] ");
    terminal.write("y\n");
    let seen = terminal.end();
    assert_eq!(seen.code, 0, "{}", seen.raw);

    let note = "who has opted out is read from `Werbung erlaubt` (yes: subscribed)";
    assert!(seen.text.contains(note), "{}", seen.raw);

    let sent = home.run(&["--sandbox", "sandbox", "messages", "list", "-o", "json"]);
    assert!(sent.stdout.contains("a@example.test"), "{sent:?}");
    assert!(!sent.stdout.contains("b@example.test"), "{sent:?}");
}

/// What was declared means the same in a later run only if emails were sent by it, and a note says so.
#[test]
fn a_dry_run_declares_nothing_for_later() {
    let home = Home::new();
    let rows = "email,Werbung erlaubt\na@example.test,ja\nb@example.test,nein\n";
    let declared = ["--opt-in", "Werbung erlaubt"];
    let run = send(&home, rows, &[&declared[..], &["--dry-run"]].concat());
    assert_eq!(run.code, 0, "{run:?}");

    let run = send(&home, rows, &["--opt-out", "none"]);
    assert_eq!((run.code, counts(&run)), (0, [2, 0, 0]), "{run:?}");
    assert_eq!(send(&home, rows, &[]).code, 2);

    let run = send(&home, rows, &declared);
    assert_eq!((run.code, counts(&run)), (0, [1, 1, 0]), "{run:?}");

    let run = send(&home, rows, &[]);
    assert_eq!((run.code, counts(&run)), (0, [1, 1, 0]), "{run:?}");

    let note = "`Werbung erlaubt` (yes: subscribed), as declared for an earlier file";
    assert!(run.stderr.contains(note), "{run:?}");
}

#[test]
fn a_file_in_another_encoding_is_refused_or_its_rows_are() {
    let home = Home::new();
    std::fs::write(
        home.path("ansi.csv"),
        b"email,price\na@example.test,5 \x80\n",
    )
    .expect("a file");
    let options = [
        "--from",
        "hello@sandbox.test",
        "--subject",
        "s",
        "--text",
        "{{ price }}",
    ];
    let send_file = |name: &str| {
        let file = home.path(name).display().to_string();
        home.run(&[&["--sandbox", "bulk", "send", &file, "--yes"][..], &options].concat())
    };

    let run = send_file("ansi.csv");
    assert!(
        run.code == 2 && run.stderr.contains("iconv -f windows-1252"),
        "{run:?}"
    );

    home.file(
        "wrong.csv",
        "email,price\na@example.test,5 \u{80}\nb@example.test,5\n",
    );
    let run = send_file("wrong.csv");
    assert_eq!((run.code, counts(&run)), (0, [1, 1, 1]), "{run:?}");

    std::fs::write(home.path("people.xlsx"), b"PK\x03\x04\x14\0\x06\0").expect("a file");
    let run = send_file("people.xlsx");
    assert!(
        run.code == 2 && run.stderr.contains("a workbook"),
        "{run:?}"
    );
}

#[test]
fn a_first_line_with_an_address_is_no_header() {
    let home = Home::new();
    let run = send(&home, "ada@example.test,Ada\nbob@example.test,Bob\n", &[]);
    assert_eq!(run.code, 2, "{run:?}");
    assert!(
        run.stderr.contains("the first line looks like data"),
        "{run:?}"
    );

    let run = send(&home, "Courriel,Nom\nada@example.test,Ada\n", &[]);
    assert_eq!(run.code, 2, "{run:?}");
    assert!(run.stderr.contains("--column Courriel"), "{run:?}");
}

#[test]
fn options_say_who_gets_no_email() {
    let home = Home::new();
    let rows = "email,gone\na@example.test,yes\nb@example.test,no\nc@example.test,\n";
    let run = send(&home, rows, &["--opt-out", "gone"]);
    assert_eq!((run.code, counts(&run)), (0, [2, 1, 0]), "{run:?}");
    assert!(
        run.stderr
            .contains("who has opted out is read from `gone` (yes: opted out)"),
        "{run:?}"
    );

    for content in [
        "B@example.test\n\nx@example.test\n",
        "name,email\nBob,b@example.test\n",
    ] {
        let file = home.file("suppress", content);
        // What was declared of these columns is remembered.
        let run = send(&home, rows, &["--suppress", &file]);
        assert_eq!((run.code, counts(&run)), (0, [1, 2, 0]), "{run:?}");
        let job = run.json()["job"].as_str().expect("an id").to_owned();
        let report = home.run(&["bulk", "report", &job]).stdout;
        assert!(
            report.contains("b@example.test,left_out,,suppressed,"),
            "{report}"
        );
    }

    let file = home.file("suppress", "name\nBob\n");
    let run = send(&home, rows, &["--suppress", &file]);
    assert!(
        run.code == 2 && run.stderr.contains("`name` is not an address"),
        "{run:?}"
    );

    for content in [
        "a@example.test,b@example.test\n",
        "a@example.test\nx;b@example.test\n",
    ] {
        let file = home.file("suppress", content.replace(';', ","));
        let run = send(&home, rows, &["--suppress", &file]);
        assert_eq!((run.code, counts(&run)), (0, [1, 2, 0]), "{run:?}");
    }

    for quoted in ["'b@example.test'", "\u{201c}b@example.test\u{201d}"] {
        let file = home.file("suppress", quoted);
        let run = send(&home, rows, &["--suppress", &file]);
        assert_eq!((run.code, counts(&run)), (0, [1, 2, 0]), "{run:?}");
    }

    let file = home.file("suppress", "*@example.test\n");
    let run = send(&home, rows, &["--suppress", &file]);
    assert!(
        run.code == 2 && run.stderr.contains("`*@example.test` is not an address"),
        "{run:?}"
    );

    let file = home.file("suppress", "other@example.test\n");
    let run = send(&home, rows, &["--suppress", &file]);
    assert!(
        run.code == 0 && run.stderr.contains("--suppress has no effect"),
        "{run:?}"
    );

    let run = send(&home, rows, &["--opt-out", "Gone"]);
    assert!(
        run.code == 2 && run.stderr.contains("did you mean `gone`?"),
        "{run:?}"
    );
}

/// As an import does. An empty cell only makes its own row invalid.
#[test]
fn an_address_whose_subscription_is_unclear_in_a_row_gets_no_email() {
    let home = Home::new();
    let rows = "email,subscribed\nb@example.test,yes\na@example.test,yes\nA@example.test,maybe\n";
    let run = send(&home, rows, &[]);
    assert_eq!((run.code, counts(&run)), (0, [1, 2, 2]), "{run:?}");
    assert!(
        run.stderr
            .contains("row 3, a@example.test: row 4 has the same address"),
        "{run:?}"
    );

    let twice = "{\"email\":\"a@b.test\",\"subscribed\":false,\"subscribed\":true}\n\
        {\"email\":\"a@b.test\",\"subscribed\":true}\n";
    assert_eq!(send(&home, twice, &[]).code, 2);

    let run = send(
        &home,
        "email,subscribed\na@example.test,yes\na@example.test,\n",
        &[],
    );
    assert_eq!((run.code, counts(&run)), (0, [1, 1, 1]), "{run:?}");
}

#[test]
fn a_column_beside_subscribed_that_says_who_has_opted_out_counts() {
    let home = Home::new();
    for (column, opted_out, others) in [
        ("unsubscribed", "yes", "no"),
        ("bounced", "1", "0"),
        ("opt_in", "no", "yes"),
        ("status", "Unsubscribed", "subscribed"),
    ] {
        let rows = format!(
            "email,subscribed,{column}\na@example.test,yes,{opted_out}\nb@example.test,yes,{others}\n"
        );
        let run = send(&home, &rows, &[]);
        assert_eq!((run.code, counts(&run)), (0, [1, 1, 0]), "{run:?}");
        let job = run.json()["job"].as_str().expect("an id").to_owned();
        let report = home.run(&["bulk", "report", &job]);
        let why = format!("not subscribed, as `{column}` says");
        assert!(report.stdout.contains(&why), "{report:?}");
    }

    let rows = "{\"email\":\"a@example.test\",\"subscribed\":true,\"bounced\":true}\n\
        {\"email\":\"b@example.test\",\"subscribed\":true,\"bounced\":false}\n";
    let run = send(&home, rows, &[]);
    assert_eq!((run.code, counts(&run)), (0, [1, 1, 0]), "{run:?}");
}

#[test]
fn both_forms_of_a_domain_are_one_address() {
    let home = Home::new();
    let unicode = "ü@bücher.test";
    let ascii = "ü@xn--bcher-kva.test";
    let rows = format!("email,subscribed\n{unicode},no\n{ascii},yes\nb@example.test,yes\n");
    let run = send(&home, &rows, &[]);
    assert_eq!((run.code, counts(&run)), (0, [1, 2, 0]), "{run:?}");
    let run = send(&home, &format!("email\n{unicode}\n{ascii}\n"), &[]);
    assert_eq!((run.code, counts(&run)), (0, [1, 1, 0]), "{run:?}");
}

/// The metadata of a contact are not what the service says about it.
#[test]
fn only_the_service_says_which_contacts_are_subscribed() {
    let home = Home::new();
    let name = "people";
    home.sandbox_json(&["audiences", "create", name]);
    let create = [
        "contacts",
        "create",
        name,
        "a@example.test",
        "--meta",
        "Subscribed=no",
        "--meta",
        "unsubscribed=yes",
    ];
    home.sandbox_json(&create);
    let send = ["--sandbox", "bulk", "send", "--audience", name, "--yes"];
    let text = [
        "--from",
        "hello@sandbox.test",
        "--subject",
        "s",
        "--text",
        "t",
    ];
    let run = home.run(&[&send[..], &text].concat());
    assert_eq!((run.code, counts(&run)), (0, [1, 0, 0]), "{run:?}");
}

/// The values of such a row may be in the columns of others, and its address anywhere.
#[test]
fn a_row_with_misplaced_values_may_opt_out() {
    let home = Home::new();
    for row in [
        "Lovelace, Ada,a@example.test,yes",
        "a@example.test,yes",
        "Ada \"L, A\",mailto:a@example.test,yes",
    ] {
        let rows =
            format!("name,email,unsubscribed\n{row}\nAda,a@example.test,\nB,b@example.test,\n");
        let run = send(&home, &rows, &[]);
        assert_eq!((run.code, counts(&run)), (0, [1, 2, 2]), "{row} {run:?}");
    }

    let rows = "[\"a@example.test\",\"unsubscribed\"]\n{\"email\":\"a@example.test\"}\n\
        {\"email\":\"b@example.test\"}\n";
    let run = send(
        &home,
        &format!("{{\"email\":\"c@example.test\"}}\n{rows}"),
        &[],
    );
    assert_eq!((run.code, counts(&run)), (0, [2, 2, 2]), "{run:?}");
}

#[test]
fn an_unclear_value_counts_for_all_spellings_of_its_address() {
    let home = Home::new();
    for address in [
        "mailto:a@example.test",
        "{a@example.test}",
        "z@example.test; a@example.test",
    ] {
        let rows = format!(
            "email,unsubscribed\n\"{address}\",perhaps\na@example.test,\nb@example.test,\n"
        );
        let run = send(&home, &rows, &[]);
        assert_eq!(
            (run.code, counts(&run)),
            (0, [1, 2, 2]),
            "{address} {run:?}"
        );
    }

    let rows = "email,unsubscribed\na(at)example.test,perhaps\na@example.test,\n";
    let run = send(&home, rows, &[]);
    let code = run.error()["code"].as_str().map(str::to_owned);
    assert_eq!(
        (run.code, code.as_deref()),
        (2, Some("opt_out_unreadable")),
        "{run:?}"
    );
}

#[test]
fn what_was_declared_holds_for_the_same_columns_in_another_order() {
    let home = Home::new();
    let rows = "email,Werbung,VIP\na@example.test,ja,ja\nb@example.test,nein,nein\n";
    let declared = ["--opt-in", "Werbung", "--ignore", "VIP"];
    assert_eq!(counts(&send(&home, rows, &declared)), [1, 1, 0]);

    let rows = "VIP,email,Werbung\nja,c@example.test,ja\nnein,d@example.test,nein\n";
    assert_eq!(counts(&send(&home, rows, &[])), [1, 1, 0]);

    // One new answer leaves the other as it is.
    let rows = "VIP,email,Werbung\nja,e@example.test,ja\nnein,f@example.test,nein\n\
        nein,g@example.test,ja\n";
    let run = send(&home, rows, &["--opt-out", "VIP"]);
    assert_eq!(counts(&run), [1, 2, 0]);
}
