//! `svc sandbox messages get --attachments`: the sender chose the names of the files.

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::support::Home;

#[test]
fn attachments_are_saved_byte_for_byte_within_the_directory() {
    let long = "é".repeat(300);
    let emoji = format!("{}.tar.gz", "😀".repeat(90));
    // The names in the message, and those of the files.
    let names = [
        ("data.bin", "data (2).bin"),
        ("data.bin", "data (3).bin"),
        ("../../escaped.txt", "escaped.txt"),
        ("/etc/passwd", "passwd"),
        ("..\\..\\C:\\evil.exe", "evil.exe"),
        ("C:evil.exe", "Cevil.exe"),
        ("a\0b\r\n.txt", "ab.txt"),
        (".bashrc", "bashrc"),
        ("..", "attachment-9"),
        ("", "attachment-10"),
        (&long, &"é".repeat(100)),
        (&emoji, &format!("{}.tar.gz", "😀".repeat(48))),
    ];
    let content = |number: usize| -> Vec<u8> {
        (0..=255_u8)
            .map(|byte| byte.wrapping_add(number as u8))
            .collect()
    };

    let parts = names.iter().enumerate().map(|(number, (name, _))| {
        let name: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let body = STANDARD.encode(content(number));
        format!(
            "--b\r\nContent-Type: application/octet-stream\r\n\
             Content-Disposition: attachment; filename*=UTF-8''{name}\r\n\
             Content-Transfer-Encoding: base64\r\n\r\n{body}\r\n"
        )
    });
    let source = format!(
        "From: eve@example.test\r\nTo: hello@sandbox.test\r\nMIME-Version: 1.0\r\n\
         Content-Type: multipart/mixed; boundary=b\r\n\r\n{}--b--\r\n",
        parts.collect::<String>()
    );
    let home = Home::new();
    let file = home.file("message.eml", source);
    let received = home.sandbox_json(&["sandbox", "inbound", "--raw", &file]);
    let id = received["messages"][0]["id"]
        .as_str()
        .expect("an ID")
        .to_owned();
    let mine = home.file("deep/saved/data.bin", "mine");

    let run = home.run(&[
        "sandbox",
        "messages",
        "get",
        &id,
        "--attachments",
        "deep/saved",
    ]);
    assert_eq!(run.code, 0, "{run:?}");

    let saved = run.json();
    for (number, (_, name)) in names.iter().enumerate() {
        let path = home.path("deep/saved").join(name);
        let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{name}: {error}: {saved:#}"));
        assert_eq!(bytes, content(number), "{name}");
        assert_eq!(saved[number]["path"], format!("deep/saved/{name}"));
    }

    assert_eq!(fs::read_to_string(mine).expect("kept"), "mine");

    let count = |folder: &str| {
        fs::read_dir(home.path(folder))
            .expect("a directory")
            .count()
    };

    assert_eq!((count("deep/saved"), count("deep")), (names.len() + 1, 1));

    let run = home.run(&[
        "sandbox",
        "messages",
        "get",
        &id,
        "--attachments",
        "message.eml",
    ]);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(
        run.error()["message"]
            .as_str()
            .expect("text")
            .contains("message.eml"),
        "{run:?}"
    );
}
