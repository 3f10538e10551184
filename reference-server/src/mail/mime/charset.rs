//! Text in any charset of mail. `encoding_rs` has those of the WHATWG.

use std::borrow::Cow;

use encoding_rs::{
    EUC_KR, Encoding, GBK, ISO_2022_JP, REPLACEMENT, UTF_16BE, UTF_16LE, WINDOWS_1252,
};
use mail_parser::decoders::charsets::map::charset_decoder;

use super::transfer;

/// Decodes text in the charset with this label; see [`undeclared`] for an unknown one.
pub(super) fn decode(bytes: &[u8], label: &str) -> String {
    let label = label.trim().to_ascii_lowercase();
    let label = label.as_str();
    if matches!(label, "" | "ascii" | "us-ascii") {
        return undeclared(bytes, "");
    }
    if matches!(label, "iso-2022-kr" | "csiso2022kr") {
        let shifts: [&[u8]; 3] = [b"\x0e", b"\x0f", b"\x1b$)C"];
        return decode_as(EUC_KR, &from_shifts(bytes, shifts));
    }
    if label == "hz-gb-2312" {
        return decode_as(GBK, &from_shifts(bytes, [b"~{", b"~}", b"~\n"]));
    }
    if label == "utf-16" {
        return decode_as(byte_order(bytes), bytes);
    }
    if matches!(label, "utf-7" | "unicode-1-1-utf-7") {
        return from_utf7(bytes);
    }
    if let Some(encoding) = encoding(label) {
        return decode_as(encoding, bytes);
    }

    let number = label.trim_start_matches(|c: char| !c.is_ascii_digit());
    if let Some((_, upper)) = DOS.iter().find(|(known, _)| *known == number) {
        let upper: Vec<char> = upper.chars().collect();
        let char = |byte: &u8| match byte.checked_sub(128) {
            Some(at) => upper[usize::from(at)],
            None => char::from(*byte),
        };
        // It does not grow, which would take its size twice.
        let mut text = String::with_capacity(3 * bytes.len());
        text.extend(bytes.iter().map(char));
        return text;
    }

    match charset_decoder(label.as_bytes()) {
        Some(decoder) => decoder(bytes),
        None => undeclared(bytes, ""),
    }
}

/// Decodes text without a label: it is UTF-8, or ISO-2022-JP with its escape sequences, or else in
/// the charset of what is around it.
pub(super) fn undeclared(bytes: &[u8], around: &str) -> String {
    if bytes.windows(2).any(|pair| pair == b"\x1b$") {
        return decode_as(ISO_2022_JP, bytes);
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) if around.is_empty() || is_utf8(around) => decode_as(WINDOWS_1252, bytes),
        Err(_) => decode(bytes, around),
    }
}

/// The bytes of text that [`undeclared`] decoded, and that is in this charset after all.
pub(super) fn as_sent<'x>(text: &'x str, label: &str) -> Cow<'x, [u8]> {
    match WINDOWS_1252.encode(text) {
        (bytes, _, false) if !is_utf8(label) => bytes,
        _ => text.as_bytes().into(),
    }
}

fn decode_as(encoding: &'static Encoding, bytes: &[u8]) -> String {
    if encoding != ISO_2022_JP {
        return encoding.decode(bytes).0.into_owned();
    }
    // Each line begins in ASCII. Two escape sequences, one after the other, are no damage.
    let pieces = bytes.chunk_by(|_, next| !b"\x1b\r\n".contains(next));
    pieces.map(|piece| encoding.decode(piece).0).collect()
}

/// Text between `+` and `-` is Base64 of UTF-16. `+-` is a plus (RFC 2152).
fn from_utf7(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|&byte| byte == b'+') {
        text.push_str(&String::from_utf8_lossy(&rest[..at]));
        rest = &rest[at + 1..];
        let digits = rest.iter().take_while(|&&byte| transfer::is_digit(byte));
        let (digits, after) = rest.split_at(digits.count());
        let utf16 = transfer::base64(digits);
        // What is left after the last character is padding.
        let utf16 = &utf16[..utf16.len() & !1];
        text.push_str(&UTF_16BE.decode_without_bom_handling(utf16).0);
        if digits.is_empty() {
            text.push('+');
        }
        rest = after.strip_prefix(b"-").unwrap_or(after);
    }

    text.push_str(&String::from_utf8_lossy(rest));
    text
}

/// That of UTF-16 without a mark at its start: where the zeros of letters and spaces are.
fn byte_order(bytes: &[u8]) -> &'static Encoding {
    let zeros = |skipped| {
        let halves = bytes.iter().skip(skipped).step_by(2);
        halves.filter(|byte| **byte == 0).count()
    };
    if zeros(0) > zeros(1) {
        UTF_16BE
    } else {
        UTF_16LE
    }
}

fn is_utf8(label: &str) -> bool {
    Encoding::for_label(label.as_bytes()) == Some(encoding_rs::UTF_8)
}

fn encoding(label: &str) -> Option<&'static Encoding> {
    let label = &*label.replacen("win-", "windows-", 1);
    let known = match label {
        "cp932" | "ms932" => "shift_jis",
        "cp936" | "ms936" => "gbk",
        "cp949" | "ms949" | "uhc" => "euc-kr",
        "cp950" => "big5",
        _ if label.starts_with("iso-2022-jp") => "iso-2022-jp",
        _ => label,
    };
    let encoding = Encoding::for_label_no_replacement(known.as_bytes());
    encoding.filter(|encoding| *encoding != REPLACEMENT)
}

/// Text of seven bits in its encoding with eight: characters between `start` and `end` have no high
/// bit. What announces the charset is left out.
fn from_shifts(bytes: &[u8], [start, end, announcement]: [&[u8]; 3]) -> Vec<u8> {
    let mut is_shifted = false;
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let [byte, next @ ..] = rest {
        if let Some(after) = rest.strip_prefix(start) {
            (is_shifted, rest) = (true, after);
        } else if let Some(after) = rest.strip_prefix(end) {
            (is_shifted, rest) = (false, after);
        } else if let Some(after) = rest.strip_prefix(announcement) {
            rest = after;
        } else {
            let is_character = is_shifted && byte.is_ascii_graphic();
            decoded.push(if is_character { byte | 0x80 } else { *byte });
            rest = next;
        }
    }
    decoded
}

/// The upper halves of code pages of DOS.
const DOS: [(&str, &str); 4] = [
    (
        "437",
        "ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜ¢£¥₧ƒáíóúñÑªº¿⌐¬½¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\u{a0}",
    ),
    (
        "850",
        "ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜø£Ø×ƒáíóúñÑªº¿®¬½¼¡«»░▒▓│┤ÁÂÀ©╣║╗╝¢¥┐└┴┬├─┼ãÃ╚╔╩╦╠═╬¤ðÐÊËÈıÍÎÏ┘┌█▄¦Ì▀ÓßÔÒõÕµþÞÚÛÙýÝ¯´\u{ad}±‗¾¶§÷¸°¨·¹³²■\u{a0}",
    ),
    (
        "852",
        "ÇüéâäůćçłëŐőîŹÄĆÉĹĺôöĽľŚśÖÜŤťŁ×čáíóúĄąŽžĘę¬źČş«»░▒▓│┤ÁÂĚŞ╣║╗╝Żż┐└┴┬├─┼Ăă╚╔╩╦╠═╬¤đĐĎËďŇÍÎě┘┌█▄ŢŮ▀ÓßÔŃńňŠšŔÚŕŰýÝţ´\u{ad}˝˛ˇ˘§÷¸°¨˙űŘř■\u{a0}",
    ),
    (
        "1125",
        "АБВГДЕЖЗИЙКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯабвгдежзийклмноп░▒▓│┤╡╢╖╕╣║╗╝╜╛┐└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀рстуфхцчшщъыьэюяЁёҐґЄєІіЇї·√№¤■\u{a0}",
    ),
];
