//! Candidates for the signature that the sender put into the header.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{Candidate, Mistake};
use webhook_verify::{Service, Signature};

pub(super) fn candidates(service: Service, header: &[u8]) -> Vec<Candidate<[u8; 32]>> {
    let mut candidates: Vec<Candidate<[u8; 32]>> = Vec::new();
    let mut add = |mistake, tag: Option<[u8; 32]>| {
        if let Some(tag) = tag
            && !candidates.iter().any(|(_, known)| *known == tag)
        {
            candidates.push((mistake, tag));
        }
    };

    add(None, parse(service, header));
    add(Some(Mistake::OtherSchemeHeader), parse_any_scheme(header));
    let bare = unquote(header);
    add(Some(Mistake::HeaderWhitespace), parse_any_scheme(bare));
    let last = bare.rsplit(|byte| matches!(byte, b'=' | b':')).next().unwrap_or(bare);
    add(Some(Mistake::HeaderPrefix), parse(Service::Email, last.trim_ascii()));
    let text = bare.strip_prefix(b"sha256=").unwrap_or(bare);
    let decoded = STANDARD.decode(text).ok().and_then(|tag| tag.try_into().ok());
    add(Some(Mistake::HeaderBase64), decoded);
    for part in header.split(|byte| matches!(byte, b',' | b';' | b' ')) {
        add(Some(Mistake::HeaderMultiple), parse_any_scheme(part));
    }
    candidates
}

fn parse(service: Service, header: &[u8]) -> Option<[u8; 32]> {
    let signature = Signature::parse(service, header).ok()?.to_string();
    let digits = signature.rsplit('=').next().unwrap_or_default();
    hex::decode(digits).ok()?.try_into().ok()
}

fn parse_any_scheme(header: &[u8]) -> Option<[u8; 32]> {
    parse(Service::Extraction, header).or_else(|| parse(Service::Email, header))
}

fn unquote(header: &[u8]) -> &[u8] {
    let trimmed = header.trim_ascii();
    let unquoted = trimmed.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
    unquoted.unwrap_or(trimmed)
}
