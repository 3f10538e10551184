//! The known mistakes, what each one is and what to do about it.

use std::fmt;

macro_rules! explained {
    ($(#[$doc:meta])* $name:ident { $($variant:ident: $code:literal, $what:literal, $advice:literal;)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $(#[doc = concat!("`", $code, "`: ", $what, ".")] $variant,)+
        }

        impl $name {
            /// Every one, in the order in which they are looked for.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// A short name for programs.
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

        /// What it is.
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Self::$variant => $what,)+
                })
            }
        }
    };
}

explained! {
    /// A known mistake that turns a good delivery into one that does not verify.
    Mistake {
        OtherSchemeHeader: "other_scheme_header",
            "the signature header is written as the other service writes it",
            "verify this delivery as the other service's";
        HeaderWhiteSpace: "header_white_space",
            "the signature header has white space or quotes around it",
            "pass on the header's value exactly as it was received";
        HeaderPrefix: "header_prefix",
            "the signature header has the wrong prefix before the right digits",
            "look at what stands between the sender and you and rewrites headers";
        HeaderBase64: "header_base64",
            "the signature header is Base64 where hex digits belong",
            "have the sender write the signature as hex digits";
        HeaderSeveral: "header_several",
            "the signature header holds several signatures, one of which is right",
            "find out who adds the others: exactly one is accepted";
        SecretWhiteSpace: "secret_white_space",
            "the secret was stored with white space or a newline around it",
            "store the secret without it (`printf %s`, not `echo`)";
        SecretByteOrderMark: "secret_byte_order_mark",
            "the secret was stored with a byte order mark before it",
            "store the secret as plain UTF-8 without a byte order mark";
        SecretQuoted: "secret_quoted",
            "the secret was stored with quotes around it",
            "store the secret without them";
        SenderSecretWhiteSpace: "sender_secret_white_space",
            "the sender's copy of the secret has white space or a newline around it",
            "have the sender store the secret without it";
        SecretDecoded: "secret_decoded",
            "the secret was decoded from hex or Base64 on one side only",
            "use the secret's text as it was shown, on both sides";
        SecretEmpty: "secret_empty",
            "the sender signed with an empty secret",
            "have the sender use the secret that it showed when the webhook was created";
        OldSecret: "old_secret",
            "the delivery was signed with a secret that was in use before",
            "keep the old secret active until the rotation is over";
        OtherSchemeSecret: "other_scheme_secret",
            "the delivery was signed with the other service's secret",
            "each webhook has a secret of its own: use this one's";
        NewlineAdded: "newline_added",
            "a newline was added at the end of the body",
            "verify the bytes as they were received, before anything reads them as text";
        NewlineRemoved: "newline_removed",
            "the newline at the end of the body was removed",
            "verify the bytes as they were received, before anything trims them";
        WhiteSpaceAdded: "white_space_added",
            "white space was added around the body",
            "verify the bytes as they were received";
        LineEndings: "line_endings",
            "the line endings of the body were changed",
            "verify the bytes as they were received; open saved bodies as binary";
        ByteOrderMarkAdded: "byte_order_mark_added",
            "a byte order mark was added before the body",
            "verify the bytes as they were received; save bodies without a byte order mark";
        ByteOrderMarkRemoved: "byte_order_mark_removed",
            "the byte order mark before the body was removed",
            "verify the bytes as they were received, before they are decoded to text";
        Base64Body: "base64_body",
            "the body is still in Base64",
            "decode it first (AWS Lambda: when `isBase64Encoded` is true)";
        Base64Signed: "base64_signed",
            "the sender signed the body's Base64 text",
            "verify before the body is decoded";
        CompressedBody: "compressed_body",
            "the body is still compressed, and the sender signed it uncompressed",
            "undo the content encoding before verification";
        Reserialized: "reserialized",
            "the body was parsed as JSON and written again",
            "verify the bytes as they were received and parse after that";
        JsonInJson: "json_in_json",
            "the body was wrapped in a JSON string",
            "verify the bytes as they were received, not an encoding of them";
        Charset: "charset",
            "the body was decoded with another character set than UTF-8",
            "verify the bytes as they were received, before they are decoded to text";
    }
}

explained! {
    /// Something odd about a case that no mistake explains.
    Hint {
        SecretEmpty: "secret_empty",
            "the secret is empty",
            "look at where it is loaded from";
        HeaderEmpty: "header_empty",
            "the signature header is empty or missing",
            "look at the header's name, and at what stands between the sender and you";
        HeaderUnreadable: "header_unreadable",
            "no signature can be read from the signature header",
            "pass on the header's value exactly as it was received";
        BodyEmpty: "body_empty",
            "the body is empty",
            "look for what read it before the verification did";
        BodyCompressed: "body_compressed",
            "the body looks compressed",
            "undo the content encoding before verification";
        BodyLossy: "body_lossy",
            "the body holds replacement characters, as decoding to text leaves them",
            "verify the bytes as they were received";
        BodyNotJson: "body_not_json",
            "the body is not JSON",
            "look at whether it is this delivery's, and whole";
    }
}
