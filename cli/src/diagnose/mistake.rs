//! The known mistakes and hints, each with a description and advice.

use std::fmt;

macro_rules! described {
    ($(#[$doc:meta])* $name:ident { $($variant:ident: $code:literal, $description:literal, $advice:literal;)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $(#[doc = concat!("`", $code, "`: ", $description, ".")] $variant,)+
        }

        impl $name {
            /// A stable name for programs.
            pub fn code(self) -> &'static str {
                match self {
                    $(Self::$variant => $code,)+
                }
            }

            /// What to do about it.
            pub fn advice(self) -> &'static str {
                match self {
                    $(Self::$variant => $advice,)+
                }
            }
        }

        /// The description.
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Self::$variant => $description,)+
                })
            }
        }
    };
}

described! {
    /// A known mistake that makes the verification of a genuine delivery fail.
    Mistake {
        OtherSchemeHeader: "other_scheme_header",
            "the signature header has the other service's format",
            "verify this delivery with the other service's scheme";
        HeaderWhitespace: "header_whitespace",
            "the signature header is surrounded by whitespace or quotes",
            "pass the header's value exactly as it was received";
        HeaderPrefix: "header_prefix",
            "the signature header has a wrong prefix before the correct digits",
            "check whether a proxy rewrites headers";
        HeaderBase64: "header_base64",
            "the signature header is Base64 instead of hex",
            "configure the sender to encode the signature as hex";
        HeaderMultiple: "header_multiple",
            "the signature header contains several signatures, one of which is valid",
            "remove the others: exactly one signature is accepted";
        SecretWhitespace: "secret_whitespace",
            "the stored secret is surrounded by whitespace or ends with a newline",
            "store the secret without it (`printf %s`, not `echo`)";
        SecretByteOrderMark: "secret_byte_order_mark",
            "the stored secret starts with a byte order mark",
            "store the secret as plain UTF-8 without a byte order mark";
        SecretQuoted: "secret_quoted",
            "the stored secret is surrounded by quotes",
            "store the secret without the quotes";
        SenderSecretWhitespace: "sender_secret_whitespace",
            "the sender's copy of the secret is surrounded by whitespace or ends with a newline",
            "remove it from the secret on the sender's side";
        SecretDecoded: "secret_decoded",
            "the secret was decoded from hex or Base64 on one side only",
            "use the secret exactly as the service returned it, on both sides";
        SecretEmpty: "secret_empty",
            "the sender signed with an empty secret",
            "configure the sender with the secret that was returned when the webhook was created";
        OldSecret: "old_secret",
            "the delivery was signed with a previous secret",
            "accept the old secret too until the rotation is complete";
        OtherSchemeSecret: "other_scheme_secret",
            "the delivery was signed with the other service's secret",
            "use the secret of this webhook: each webhook has its own";
        NewlineAdded: "newline_added",
            "a newline was appended to the body",
            "verify the received bytes before they are converted to text";
        NewlineRemoved: "newline_removed",
            "the newline at the end of the body was removed",
            "verify the received bytes before they are trimmed";
        WhitespaceAdded: "whitespace_added",
            "whitespace was added around the body",
            "verify the received bytes";
        LineEndings: "line_endings",
            "the line endings of the body were changed",
            "verify the received bytes; open saved bodies in binary mode";
        ByteOrderMarkAdded: "byte_order_mark_added",
            "a byte order mark was added at the start of the body",
            "verify the received bytes; save bodies without a byte order mark";
        ByteOrderMarkRemoved: "byte_order_mark_removed",
            "the byte order mark at the start of the body was removed",
            "verify the received bytes before they are decoded to text";
        Base64Body: "base64_body",
            "the body is still encoded as Base64",
            "decode it first (AWS Lambda: when `isBase64Encoded` is true)";
        Base64Signed: "base64_signed",
            "the sender signed the Base64 encoding of the body",
            "verify the body before decoding it";
        CompressedBody: "compressed_body",
            "the body is still compressed, and the sender signed it uncompressed",
            "decompress the body before verifying it";
        Reserialized: "reserialized",
            "the body was parsed as JSON and serialized again",
            "verify the received bytes, then parse them";
        KeysReordered: "keys_reordered",
            "the body was parsed as JSON and serialized again with its keys in another order",
            "verify the received bytes, then parse them";
        JsonInJson: "json_in_json",
            "the body was wrapped in a JSON string",
            "verify the received bytes, not an encoding of them";
        Charset: "charset",
            "the body was decoded with a character set other than UTF-8",
            "verify the received bytes before they are decoded to text";
    }
}

described! {
    /// An observation about a case that no known mistake explains.
    Hint {
        SecretEmpty: "secret_empty",
            "the secret is empty",
            "check where it is loaded from";
        HeaderEmpty: "header_empty",
            "the signature header is empty or missing",
            "check the header's name, and whether a proxy removes it";
        HeaderUnreadable: "header_unreadable",
            "the signature header contains no signature",
            "pass the header's value exactly as it was received";
        BodyEmpty: "body_empty",
            "the body is empty",
            "check whether something else reads the body before it is verified";
        BodyCompressed: "body_compressed",
            "the body looks compressed",
            "decompress the body before verifying it";
        BodyLossy: "body_lossy",
            "the body contains replacement characters, which come from decoding it to text",
            "verify the received bytes";
        BodyNotJson: "body_not_json",
            "the body is not JSON",
            "check that it is the body of this delivery, and complete";
    }
}
