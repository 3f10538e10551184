//! What signature a header could have been meant to hold.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{Mistake, Reading};
use crate::{Extraction, Mail, Scheme, Signature};

pub(super) fn readings<S: Scheme>(header: &[u8]) -> Vec<Reading<[u8; 32]>> {
    let mut readings: Vec<Reading<[u8; 32]>> = Vec::new();
    let mut add = |mistake, tag: Option<[u8; 32]>| {
        if let Some(tag) = tag
            && !readings.iter().any(|(_, known)| *known == tag)
        {
            readings.push((mistake, tag));
        }
    };

    add(None, read::<S>(header));
    add(Some(Mistake::OtherSchemeHeader), of_any_scheme(header));
    let bare = bare(header);
    add(Some(Mistake::HeaderWhiteSpace), of_any_scheme(bare));
    let last = bare.rsplit(|byte| matches!(byte, b'=' | b':')).next().unwrap_or(bare);
    add(Some(Mistake::HeaderPrefix), read::<Mail>(last.trim_ascii()));
    let text = bare.strip_prefix(b"sha256=").unwrap_or(bare);
    let decoded = STANDARD.decode(text).ok().and_then(|tag| tag.try_into().ok());
    add(Some(Mistake::HeaderBase64), decoded);
    for one in header.split(|byte| matches!(byte, b',' | b';' | b' ')) {
        add(Some(Mistake::HeaderSeveral), of_any_scheme(one));
    }
    readings
}

fn read<S: Scheme>(header: &[u8]) -> Option<[u8; 32]> {
    Signature::<S>::parse(header).ok().map(|signature| *signature.tag())
}

fn of_any_scheme(header: &[u8]) -> Option<[u8; 32]> {
    read::<Extraction>(header).or_else(|| read::<Mail>(header))
}

fn bare(header: &[u8]) -> &[u8] {
    let trimmed = header.trim_ascii();
    let unquoted = trimmed.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
    unquoted.unwrap_or(trimmed)
}
