//! `svc sandbox open` and `svc sandbox messages open`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::{RunningServer, send};
use crate::pty::Terminal;
use crate::support::Home;

/// A browser that notes the URLs that it opens.
fn browser(home: &Home) -> String {
    let script = format!(
        "#!/bin/sh\necho \"$1\" >> {}\n",
        home.path("opened").display()
    );
    let path = home.file("browser", script);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("executable");
    path
}

#[test]
fn opens_the_page_in_the_browser() {
    let home = Home::new();
    let run = home.run(&["sandbox", "open"]);
    assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{run:?}");
    assert_eq!(
        run.error()["hint"],
        "start one in another terminal: svc sandbox serve"
    );

    let server = RunningServer::start(&home, &[]);
    let http = &server.http;
    home.sandbox_json(
        &[
            &send("hello@sandbox.test", "ada@example.test")[..],
            &["--wait"],
        ]
        .concat(),
    );
    let messages = home.run(&["sandbox", "messages", "list"]).json();
    let id = messages[0]["id"].as_str().expect("an ID");
    let created = home
        .run(&["sandbox", "organizations", "create", "--name", "Love lace"])
        .json();
    let organization = created["id"].as_str().expect("an ID");

    let browser = browser(&home);
    let open = |args: &[&str], browser: &str| {
        let mut terminal = Terminal::start(&home, args, &[("BROWSER", browser)], 120);
        let seen = terminal.wait();
        assert_eq!(seen.code, 0, "{}", seen.raw);
        seen.text
    };

    let url = format!("{http}/#/mailbox/{id}");
    assert_eq!(
        open(&["sandbox", "open"], &browser),
        format!("opened {http}/\n")
    );

    open(&["sandbox", "messages", "open", id], &browser);
    open(
        &["sandbox", "open", "--organization", "Love lace"],
        &browser,
    );
    let opened = fs::read_to_string(home.path("opened")).expect("opened");
    let elsewhere = format!("{http}/#/mailbox?organization={organization}");
    assert_eq!(opened, format!("{http}/\n{url}\n{elsewhere}\n"));

    // Without a browser, or if standard output is not a terminal, the URL is printed.
    let none = open(&["sandbox", "open"], "/nothing/here");
    assert!(none.contains("found no browser"), "{none}");
    assert!(none.ends_with(&format!("{http}/\n")), "{none}");

    open(&["sandbox", "open", "--print"], &browser);
    let mut piped = home.command(&["sandbox", "messages", "open", id]);
    let piped = crate::support::Run::complete({
        piped.env("BROWSER", &browser);
        piped
    });
    assert_eq!((piped.code, piped.stdout), (0, format!("{url}\n")));
    assert_eq!(
        fs::read_to_string(home.path("opened")).expect("opened"),
        opened
    );

    for (args, code) in [
        (&["sandbox", "messages", "open", "msg_nothing"][..], 5),
        (&["sandbox", "open", "--organization", "nobody"], 5),
    ] {
        let run = home.run(args);
        assert_eq!((run.code, run.stdout.as_str()), (code, ""), "{run:?}");
    }
}
