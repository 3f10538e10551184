//! Shows the attached images of a message within its HTML, as mail programs do: it comes in as
//! `Incoming`, and its HTML goes out as it is written to a response. Nothing else is changed.

use std::collections::HashMap;
use std::io::{self, Write};

use base64::engine::general_purpose::STANDARD;
use base64::write::EncoderWriter;
use mail_parser::decoders::html::html_to_text;
use percent_encoding::percent_decode_str;

use super::html::tags;
use super::mime::Incoming;

/// How much of images is written into the HTML, in bytes. One may be shown many times.
const MAX_EMBEDDED: usize = 64 << 20;

/// Writes the HTML of a message. Attached images that it shows as `cid:ID` (RFC 2392) become data
/// URLs.
pub(crate) fn write_with_images(message: &Incoming, to: &mut dyn Write) -> io::Result<()> {
    let html = message.html.as_deref().unwrap_or_default();
    let decoded = |id: &str| percent_decode_str(id).decode_utf8_lossy().into_owned();
    let is_type_char = |c: char| c.is_ascii_alphanumeric() || "/+-.".contains(c);
    let images: HashMap<_, _> = message
        .attachments
        .iter()
        .filter(|file| file.content_type.starts_with("image/"))
        .filter(|file| file.content_type.chars().all(is_type_char))
        .filter_map(|file| Some((decoded(file.content_id.as_deref()?), file)))
        .collect();

    let mut at = 0;
    let mut left = MAX_EMBEDDED;
    for (name, value) in tags(html).flat_map(|tag| tag.attributes()) {
        let is_image = ["src", "background", "poster"]
            .iter()
            .any(|known| name.eq_ignore_ascii_case(known));
        let id = match value.split_once(':') {
            Some((scheme, id)) if is_image && scheme.eq_ignore_ascii_case("cid") => id,
            _ => continue,
        };
        let Some(image) = images.get(&decoded(&html_to_text(id))) else {
            continue;
        };
        let Some(rest) = left.checked_sub(image.size) else {
            break;
        };

        left = rest;
        // `value` is a slice of `html`, so the pointers give its offset.
        let start = value.as_ptr() as usize - html.as_ptr() as usize;
        to.write_all(&html.as_bytes()[at..start])?;
        write!(to, "data:{};base64,", image.content_type)?;
        let mut encoder = EncoderWriter::new(&mut *to, &STANDARD);
        encoder.write_all(&image.content)?;
        encoder.finish()?;
        at = start + value.len();
    }

    to.write_all(&html.as_bytes()[at..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_of_the_message_are_in_its_html() {
        let image = "--b\r\nContent-Type: image/png\r\nContent-ID: <a@b>\r\n\r\nxyz\r\n";
        for (html, expected) in [
            (
                "<img src=\"cid:a@b\"> x",
                "<img src=\"data:image/png;base64,eHl6\"> x",
            ),
            (
                "<td BACKGROUND=CID:a%40b>",
                "<td BACKGROUND=data:image/png;base64,eHl6>",
            ),
            (
                "<img src='cid:a@'><a href='cid:a@b'>",
                "<img src='cid:a@'><a href='cid:a@b'>",
            ),
        ] {
            let source = format!(
                "Content-Type: multipart/related; boundary=b\r\n\r\n--b\r\n\
                 Content-Type: text/html\r\n\r\n{html}\r\n{image}--b--"
            );
            let mut written = Vec::new();
            write_with_images(&Incoming::parse(source.as_bytes()), &mut written).expect("written");
            assert_eq!(String::from_utf8_lossy(&written), expected);
        }
    }
}
