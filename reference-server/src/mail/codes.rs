//! Finds the one-time codes of a message (`docs/sandbox.md#one-time-codes`) in its subject and its
//! text, or in its HTML if the text has none. A code has a usual form (`is_code`) and stands near a
//! word for a code, in the same sentence, or alone on its line. Prices, telephone and order numbers
//! are left out, and years unless the word stands right before them. The words, in many languages,
//! are in `codes.json`. Over 500 lines with its tests, most of which are examples.

use std::collections::HashSet;
use std::sync::LazyLock;

use mail_parser::decoders::html::html_to_text;
use regex_lite::Regex;
use serde::Deserialize;

use super::links::{MAX_SEARCHED, start_of};

/// How far from a code word a code may be, in words.
const REACH: usize = 12;
/// The part of the text that is searched, in bytes: each word takes a hundred bytes of memory.
const MAX_TEXT: usize = 64 << 10;

/// Returns the one-time codes, six-digit ones first.
pub(crate) fn codes(subject: Option<&str>, html: Option<&str>, text: Option<&str>) -> Vec<String> {
    let text = text.filter(|text| !text.trim().is_empty());
    let found = text.map(|text| codes_of(subject, start_of(text, MAX_TEXT)));
    if let Some(found) = found.filter(|found| !found.is_empty()) {
        return found;
    }

    // What is between two tags is a line.
    let html = start_of(html.unwrap_or_default(), MAX_SEARCHED).replace('<', " \u{1e} <");
    let body = html_to_text(&html).replace('\u{1e}', "\n");
    codes_of(subject, start_of(&body, MAX_TEXT))
}

fn codes_of(subject: Option<&str>, body: &str) -> Vec<String> {
    let subject = subject.map(plain);
    let body = plain(body);
    let lines = subject
        .as_deref()
        .into_iter()
        .chain(body.lines())
        .enumerate();
    let words = lines.flat_map(|(line, text)| {
        let words = text.split_whitespace().flat_map(without_label);
        let pieces = words.flat_map(|word| PIECE.find_iter(word));
        pieces.map(move |piece| Word::new(piece.as_str(), line))
    });
    Text(words.collect()).codes()
}

/// The pieces of a word where a script that has no spaces begins or ends: `验证码123456`.
static PIECE: LazyLock<Regex> = LazyLock::new(|| {
    let script = r"\u{e00}-\u{e7f}\u{2e81}-\u{10ffff}";
    Regex::new(&format!("[{script}]+|[^{script}]+")).expect("a valid pattern")
});

/// `Code:` and `551234` of `Code:551234`, but no part of a URL.
fn without_label(word: &str) -> impl Iterator<Item = &str> {
    let at = word.find([':', '=']).filter(|at| {
        word[..*at]
            .chars()
            .all(|letter| letter.is_alphabetic() || !letter.is_ascii())
    });
    let at = at.filter(|_| !word.contains('/')).map_or(0, |at| at + 1);
    let (label, rest) = word.split_at(at);
    [label, rest].into_iter().filter(|part| !part.is_empty())
}

/// Where the next word follows a code without a space: `482913,valid`, `482913.Do`, but no domain.
static NEXT: LazyLock<Regex> = LazyLock::new(|| {
    let letter = r"A-Z\u{80}-\u{10ffff}";
    let pattern = format!(r"(\d[A-Z\d]*)(?:([,;!?(])([a-z{letter}])|(\.)([{letter}]))");
    Regex::new(&pattern).expect("a valid pattern")
});

/// The text with digits of other scripts, and the wide forms of ASCII, as ASCII.
fn plain(text: &str) -> String {
    const ZEROS: [char; 4] = ['٠', '۰', '०', '০'];

    let digit = |letter: char| {
        let zero = ZEROS.into_iter().rfind(|zero| *zero <= letter)?;
        char::from_digit(u32::from(letter) - u32::from(zero), 10)
    };

    let letters = text.chars().map(|letter| match letter {
        // They end a part of a sentence in scripts without spaces.
        '，' | '；' => ' ',
        '！'..='～' => char::from_u32(u32::from(letter) - 0xfee0).unwrap_or(letter),
        _ => digit(letter).unwrap_or(letter),
    });
    NEXT.replace_all(&letters.collect::<String>(), "$1$2$4 $3$5")
        .into_owned()
}

struct Word<'a> {
    raw: &'a str,
    /// Without punctuation.
    text: &'a str,
    lower: String,
    line: usize,
}

impl<'a> Word<'a> {
    fn new(raw: &'a str, line: usize) -> Self {
        let text = raw.trim_matches(|letter: char| !letter.is_alphanumeric());
        Self {
            raw,
            text,
            lower: text.to_lowercase(),
            line,
        }
    }

    fn is_in(&self, list: &HashSet<String>) -> bool {
        list.contains(&self.lower)
    }

    fn ends_sentence(&self) -> bool {
        let end = self
            .raw
            .trim_end_matches(['"', '\'', ')', ']', '*', '_', '”', '’', '»']);
        end.ends_with(['.', '!', '?', '。', '！', '？'])
    }

    fn is_digits(&self) -> bool {
        !self.text.is_empty() && self.text.bytes().all(|byte| byte.is_ascii_digit())
    }

    fn names_a_code(&self) -> bool {
        let last = self.lower.rsplit('-').next().unwrap_or_default();
        WORDS.code_words.contains(last)
            || WORDS.endings.iter().any(|end| last.ends_with(end))
            || WORDS.unspaced.iter().any(|part| self.lower.contains(part))
    }

    fn has_currency(&self) -> bool {
        self.raw.contains(['$', '€', '£', '¥', '₹', '₽', '₺', '%']) || self.is_in(&WORDS.currencies)
    }
}

struct Text<'a>(Vec<Word<'a>>);

impl Text<'_> {
    fn codes(&self) -> Vec<String> {
        let mut found: Vec<(usize, String)> = Vec::new();
        let mut has_code_word = false;
        for at in (0..self.0.len()).filter(|at| self.is_code_word(*at)) {
            has_code_word = true;
            let after = self
                .sentence_after(at)
                .find_map(|at| Some((at, self.candidate(at)?)));
            let before = || {
                self.sentence_before(at)
                    .find_map(|at| Some((at, self.candidate(at)?)))
            };
            let Some((mut at, mut code)) = after.or_else(before) else {
                continue;
            };
            // A list of codes.
            loop {
                let next = at + code.split(' ').count();
                found.push((at, code));
                let Some(more) = self.candidate(next) else {
                    break;
                };
                (at, code) = (next, more);
            }
        }

        if has_code_word {
            let alone = (0..self.0.len()).filter(|at| self.is_first_of_line(*at));
            found.extend(alone.filter_map(|at| {
                let code = self.candidate(at)?;
                self.is_first_of_line(at + code.split(' ').count())
                    .then_some((at, code))
            }));
        }

        found.sort();
        let mut known = HashSet::new();
        let codes = found.into_iter().map(|(_, code)| code);
        let mut codes: Vec<_> = codes.filter(|code| known.insert(code.clone())).collect();
        codes.sort_by_key(|code| code.bytes().filter(u8::is_ascii_digit).count() != 6);
        codes
    }

    /// The words after this one in its sentence.
    fn sentence_after(&self, at: usize) -> impl Iterator<Item = usize> {
        let ends = |at: usize| self.0[at].ends_sentence();
        (at + 1..self.0.len().min(at + 1 + REACH)).take_while(move |at| !ends(at - 1))
    }

    fn sentence_before(&self, at: usize) -> impl Iterator<Item = usize> {
        let before = (at.saturating_sub(REACH)..at).rev();
        before.take_while(|at| !self.0[*at].ends_sentence())
    }

    /// Whether a line begins with this word, or the text has ended before it.
    fn is_first_of_line(&self, at: usize) -> bool {
        let line = |at: usize| self.0.get(at).map(|word| word.line);
        at == 0 || line(at) != line(at - 1)
    }

    fn previous(&self, at: usize) -> Option<&Word<'_>> {
        self.0.get(at.checked_sub(1)?)
    }

    fn is_code_word(&self, at: usize) -> bool {
        let word = &self.0[at];
        let next = self.0.get(at + 1);
        if matches!(word.lower.as_str(), "sign" | "log") {
            return next.is_some_and(|next| next.lower == "in");
        }
        word.names_a_code() && !self.is_other_code(at)
    }

    /// Whether `code` is here that of a country, of a discount, …
    fn is_other_code(&self, at: usize) -> bool {
        let word = &self.0[at];
        let beside = [at.wrapping_sub(1), at + 1].map(|at| self.0.get(at));
        let is_part = |other: &String| {
            word.lower
                .strip_prefix(other)
                .is_some_and(|rest| !rest.is_empty())
        };

        word.names_a_code()
            && (beside
                .into_iter()
                .flatten()
                .any(|word| word.is_in(&WORDS.other_codes))
                || WORDS.other_codes.iter().any(is_part))
    }

    /// The code that begins with this word, if it can be one.
    fn candidate(&self, at: usize) -> Option<String> {
        let word = self.0.get(at)?;
        if !word.text.bytes().any(|byte| byte.is_ascii_digit()) || word.text.len() < 3 {
            return None;
        }
        // An address, a time, a telephone number, `#12345`.
        if word
            .raw
            .trim_end_matches(':')
            .contains(['@', '#', '+', '/', ':'])
        {
            return None;
        }

        let (code, end) = match self.0.get(at + 1) {
            // 123 456
            Some(next)
                if [word, next]
                    .iter()
                    .all(|word| word.is_digits() && word.text.len() == 3)
                    && word.line == next.line
                    && word.raw.ends_with(word.text) =>
            {
                (format!("{} {}", word.text, next.text), at + 2)
            }
            _ if is_code(word.text) => (word.text.to_owned(), at + 1),
            _ => return None,
        };
        let on_line = |other: &&Word<'_>| other.line == word.line;
        let previous = self.previous(at);
        let next = self.0.get(end).filter(on_line);
        // A part of a longer number, such as that of a telephone.
        let is_short = code.len() == 4 || code.contains(' ');
        let is_part = previous.filter(on_line).is_some_and(|word| {
            word.is_digits() && word.raw.ends_with(word.text) && (is_short || word.text.len() < 4)
        }) || is_short
            && next.is_some_and(|word| word.text.starts_with(|c: char| c.is_ascii_digit()));
        let mut around = previous
            .filter(on_line)
            .into_iter()
            .chain(next)
            .chain([word]);
        if is_part || around.any(Word::has_currency) {
            return None;
        }

        let mut before = (at.saturating_sub(3)..at).rev();
        let labelled = before.find(|at| !self.0[*at].is_in(&WORDS.fillers));
        if labelled.is_some_and(|at| self.0[at].is_in(&WORDS.labels) || self.is_other_code(at)) {
            return None;
        }

        let is_year = code.len() == 4 && (code.starts_with("19") || code.starts_with("20"));
        (!is_year || labelled.is_some_and(|at| self.is_code_word(at))).then_some(code)
    }
}

/// Whether a word has the form of a code: `1234` to `12345678`, `123-456`, `1234-5678`, `G-123456`,
/// `A1B2C3`, `A1B2-C3D4`.
fn is_code(word: &str) -> bool {
    static PATTERNS: LazyLock<[Regex; 3]> = LazyLock::new(|| {
        let mixed = "[A-Z0-9]";
        [
            r"\d{4,8}|\d{3}-\d{3}|\d{4}-\d{4}|[A-Z]{1,2}-\d{4,8}".to_owned(),
            format!("{mixed}{{5,10}}|{mixed}{{3}}-{mixed}{{3}}|{mixed}{{4}}-{mixed}{{4}}|{mixed}{{5}}-{mixed}{{5}}"),
            // Not SAVE20: a word with a number.
            r"[A-Z]+|[A-Z]{4,}\d+|\d+".to_owned(),
        ]
        .map(|pattern| Regex::new(&format!("^(?:{pattern})$")).expect("a valid pattern"))
    });
    let [number, mixed, plain] = &*PATTERNS;
    number.is_match(word) || mixed.is_match(word) && !plain.is_match(&word.replace('-', ""))
}

/// The words that decide, by language in `codes.json`.
#[derive(Deserialize)]
struct Words {
    code_words: HashSet<String>,
    /// Ends of code words in languages that join words: Bestätigungscode, engångskod.
    endings: Vec<String>,
    /// Parts of code words in languages without spaces.
    unspaced: Vec<String>,
    /// Words beside or before `code` if it is that of a country, of a discount, …
    other_codes: HashSet<String>,
    /// Words for a number that is not a code.
    labels: HashSet<String>,
    fillers: HashSet<String>,
    currencies: HashSet<String>,
}

static WORDS: LazyLock<Words> =
    LazyLock::new(|| serde_json::from_str(include_str!("codes.json")).expect("JSON"));

#[cfg(test)]
mod tests {
    use super::codes;

    /// The subject, the text, and the codes in it.
    const MESSAGES: &[(&str, &str, &[&str])] = &[
        // Codes.
        (
            "Your code",
            "Your verification code is 482913. It expires in 10 minutes.",
            &["482913"],
        ),
        (
            "Sign in to Shop",
            "Enter this code to sign in:\n\n482913\n\nIt is valid until 18:30.",
            &["482913"],
        ),
        (
            "482913 is your Shop code",
            "If you did not ask for it, ignore this message.",
            &["482913"],
        ),
        ("Confirm your email", "Code: 123-456", &["123-456"]),
        (
            "Confirm your email",
            "Your security code is 123 456.",
            &["123 456"],
        ),
        (
            "Google",
            "G-123456 is your Google verification code.",
            &["G-123456"],
        ),
        ("Two-step login", "Your login code: A1B2C3", &["A1B2C3"]),
        (
            "Device",
            "Type the code A1B2-C3D4 on your television.",
            &["A1B2-C3D4"],
        ),
        ("Your PIN", "The PIN of your card is *4827*.", &["4827"]),
        (
            "OTP",
            "1234 is the OTP for the transfer of EUR 2500 to account 99887766.",
            &["1234"],
        ),
        ("Use 482913 to log in", "Hello Ada", &["482913"]),
        (
            "Reset",
            "Your one-time password is 91827364 and works once.",
            &["91827364"],
        ),
        (
            "Backup codes",
            "Your backup codes:\n12345678\n23456789\n34567890",
            &["12345678", "23456789", "34567890"],
        ),
        (
            "Order 83920183",
            "Your pickup code for order 83920183 is 4821.",
            &["4821"],
        ),
        ("Your PIN", "Your PIN: 1984", &["1984"]),
        ("Your code", "Your code:551234", &["551234"]),
        ("Log in", "OTP:551234", &["551234"]),
        ("Log in", "Code=123-456", &["123-456"]),
        ("Log in", "Your code is:A1B2C3.", &["A1B2C3"]),
        (
            "Verify",
            "Your code is at shop.test/code:482913 or https://shop.test?code=482913",
            &[],
        ),
        (
            "Ihr Code",
            "Ihr Bestätigungscode lautet 482913.",
            &["482913"],
        ),
        (
            "Anmeldung",
            "Verwenden Sie die TAN 739201 für Auftrag 55512345.",
            &["739201"],
        ),
        (
            "Connexion",
            "Votre code de vérification est le 482 913",
            &["482 913"],
        ),
        (
            "Acceso",
            "Tu código de verificación es 482913. No lo compartas.",
            &["482913"],
        ),
        ("Accesso", "Il tuo codice di accesso: 5829", &["5829"]),
        ("Acesso", "A sua senha temporária é 482913", &["482913"]),
        ("Inloggen", "Je verificatiecode is 482913.", &["482913"]),
        ("Logowanie", "Twój kod to 482913.", &["482913"]),
        ("Inloggning", "Din engångskod är 482913", &["482913"]),
        ("Giriş", "Doğrulama kodunuz: 482913", &["482913"]),
        ("Вход", "Ваш код подтверждения: 482913", &["482913"]),
        (
            "验证码",
            "您的验证码是482913，请在10分钟内输入。",
            &["482913"],
        ),
        ("ログイン", "認証コードは482913です。", &["482913"]),
        ("로그인", "인증번호 482913를 입력하세요.", &["482913"]),
        ("تسجيل الدخول", "رمز التحقق الخاص بك هو 482913", &["482913"]),
        ("כניסה", "קוד האימות שלך הוא 482913", &["482913"]),
        ("ログイン", "認証コード:739201", &["739201"]),
        ("ログイン", "認証コード：７３９２０１", &["739201"]),
        ("登录", "您的验证码为:482913。", &["482913"]),
        ("登录", "【商店】验证码：482913，5分钟内有效。", &["482913"]),
        ("登入", "您的驗證碼為 482913,請勿告訴他人", &["482913"]),
        (
            "Login",
            "Your code is 482913,valid for ten minutes.",
            &["482913"],
        ),
        (
            "Login",
            "Your code is 482913.Do not share it with anyone.",
            &["482913"],
        ),
        ("Login", "Use code A1B2C3;it works once.", &["A1B2C3"]),
        ("Login", "Your code:482913(valid 10 min)", &["482913"]),
        ("تسجيل الدخول", "رمز التحقق: ٤٨٢٩١٣", &["482913"]),
        ("ورود", "کد ورود شما: ۴۸۲۹۱۳", &["482913"]),
        ("लॉगिन", "आपका कोड ४८२९१३ है।", &["482913"]),
        ("로그인", "인증번호는 [482913] 입니다.", &["482913"]),
        ("Đăng nhập", "Mã xác nhận của bạn là 482913.", &["482913"]),
        (
            "[GitHub] Please verify your device",
            "A sign in attempt requires further verification.\n\nDevice: Chrome on Linux\nVerification code: 739201\n\nIf you did not attempt to sign in, change your password.",
            &["739201"],
        ),
        (
            "Slack confirmation code: TYQ-8RM",
            "Confirm your email address. Your confirmation code is below.\n\nTYQ-8RM",
            &["TYQ-8RM"],
        ),
        (
            "Your Amazon verification code",
            "To verify your email address, please use the following One Time Password (OTP):\n\n482913\n\nDo not share this OTP with anyone. Amazon will never ask for it.",
            &["482913"],
        ),
        (
            "Microsoft account security code",
            "Please use the following security code for the Microsoft account ad**3@example.test.\n\nSecurity code: 4829131",
            &["4829131"],
        ),
        // No codes.
        (
            "Your order 83920183",
            "Thank you. We have received order number 83920183 of 12 March 2026.",
            &[],
        ),
        (
            "Invoice 20260142",
            "Invoice 20260142 over 1299 EUR is due on 2026-12-01.",
            &[],
        ),
        (
            "Happy 2027",
            "A happy new year 2027 from all 1500 of us.",
            &[],
        ),
        (
            "Sale",
            "Use promo code 482913 at the checkout, or code SAVE20 for 20% off.",
            &[],
        ),
        (
            "New login",
            "A new login from Berlin on 25 November 2026 at 18:30. Call 0800 1234 if it was not you.",
            &[],
        ),
        (
            "Visit us",
            "Shop Ltd, 12 High Street, zip code 90210, phone 555 123 4567",
            &[],
        ),
        (
            "Verify",
            "Open https://shop.test/verify/482913 or write to 482913@shop.test to verify it.",
            &[],
        ),
        (
            "Your package",
            "Tracking number 12345678\nWeight 1500 g",
            &[],
        ),
        (
            "Rechnung",
            "Rechnungsnummer: 482913\nBetrag: 1299 Euro\nKundennummer 55512345",
            &[],
        ),
        (
            "Statement",
            "The balance of your account is $1500. The code of conduct has 4000 words.",
            &[],
        ),
        (
            "Receipt 4829-1304",
            "Receipt number 4829-1304\nAmount paid $12.00\nVisa ending in 4242",
            &[],
        ),
        (
            "Your flight",
            "Flight LH 1234 on 2026-12-01, gate 42, seat 23A. Booking code: X7K2QP",
            &[],
        ),
        (
            "Appointment",
            "Your appointment is at 14:30 in room 2041 on 3 December 2026.",
            &[],
        ),
        (
            "Weekly report",
            "48291 visits, 12% more than in week 4711. Top page: /docs/482913",
            &[],
        ),
        (
            "[shop/api] Build 48291 failed",
            "Build 48291 of commit 9f3c2a1 failed after 312 s with exit code 101.",
            &[],
        ),
        (
            "Error in production",
            "TypeError at app.js:4829, status code 500, request 7f3a9c21.",
            &[],
        ),
        (
            "Your parcel",
            "Track your parcel with tracking number 1Z9482910312345678.",
            &[],
        ),
        (
            "Refund",
            "We refunded 482,913.00 JPY to the card ending in 1881.",
            &[],
        ),
        (
            "Welcome",
            "You are member 482913 of the club. See you at 1600 Amphitheatre Parkway.",
            &[],
        ),
        (
            "Password changed",
            "The password of your account was changed on 25 November 2026 from 203.0.113.42.",
            &[],
        ),
        (
            "Reset your password",
            "Open https://shop.test/reset?token=482913 within 24 hours.",
            &[],
        ),
        (
            "Coupon inside",
            "Your coupon code: SAVE2026. Discount code 482913 is valid until 31.12.2026.",
            &[],
        ),
        (
            "Gift card",
            "Your gift card code is 4829-1300. Redeem it at the checkout.",
            &[],
        ),
        (
            "Subscription",
            "Your plan renews on 1 January 2027 for 1200 euros. Customer 48291.",
            &[],
        ),
        (
            "Meeting",
            "Dial +1 555 123 4567, meeting ID 482 9130 4711.",
            &[],
        ),
        (
            "New comment",
            "Ada commented on issue #4829: the postal code 10115 is refused.",
            &[],
        ),
        (
            "Lieferung",
            "Ihre Sendungsnummer 00340434161094. Postleitzahl 10115 Berlin.",
            &[],
        ),
        (
            "Rabatt",
            "Mit dem Rabattcode SOMMER2026 sparen Sie 1500 Cent.",
            &[],
        ),
        (
            "Facture",
            "Facture n° 482913 du 12 mars 2026, montant 1299 EUR.",
            &[],
        ),
        (
            "Factura",
            "Factura 2026-4829 por 1299 EUR. Teléfono 600 123 456.",
            &[],
        ),
        (
            "Zamówienie",
            "Zamówienie nr 482913 zostało wysłane. Kwota 1299 zł.",
            &[],
        ),
        (
            "Заказ",
            "Ваш заказ № 482913 отправлен. Сумма 1299 руб.",
            &[],
        ),
        ("订单", "您的订单号为 482913，共 1299 元。", &[]),
        ("ご注文", "注文番号：482913 合計 1299 円", &[]),
        ("주문", "주문번호 482913, 결제 금액 12990 원", &[]),
        ("طلبك", "رقم الطلب ٤٨٢٩١٣ بمبلغ ١٢٩٩ ريال", &[]),
        (
            "Visit 482913.com",
            "Write to code@482913.com or open 482913.com/code.",
            &[],
        ),
        (
            "Security notice",
            "CVE-2026-48291 concerns versions 1.2.4829 to 2.0.",
            &[],
        ),
        (
            "Your statement",
            "IBAN DE89 3704 0044 0532 0130 00, sort code 20-30-40, account 48291304.",
            &[],
        ),
        (
            "Poll",
            "1234 people voted, 5678 did not. The code review takes 3000 words.",
            &[],
        ),
        (
            "Two-factor authentication is on",
            "Two-factor authentication was enabled on 25 November 2026. You will need your authenticator from now on.",
            &[],
        ),
        (
            "Never share your code",
            "We will never ask for your code. Call 0800 482913 if somebody does.",
            &[],
        ),
        (
            "Recall",
            "Products with the item code 48291304 are recalled.",
            &[],
        ),
        (
            "Your ticket",
            "Ticket 482913: seat 1204, row 2026, hall 4.",
            &[],
        ),
        (
            "Newsletter 4829",
            "Our 1000 favourite books of 2026. Source code 4829 lines long.",
            &[],
        ),
    ];

    #[test]
    fn finds_the_codes_of_a_hundred_messages_and_nothing_else() {
        assert!(MESSAGES.len() >= 60);
        let mut wrong = Vec::new();
        for (subject, text, expected) in MESSAGES {
            let html = format!("<p>{}</p>", text.replace('\n', "</p><p>"));
            for found in [
                codes(Some(subject), None, Some(text)),
                codes(Some(subject), Some(&html), None),
            ] {
                if found != *expected {
                    wrong.push(format!("{found:?} in {subject}: {text}"));
                }
            }
        }

        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    #[test]
    fn reads_html_only_without_text() {
        let html = "<style>.a{width:1234px; x: 5678 }</style><p>Code:<b>&#52;82913</b></p>";
        assert_eq!(codes(None, Some(html), None), ["482913"]);
        assert_eq!(codes(None, Some(html), Some(" ")), ["482913"]);
        assert_eq!(codes(None, Some(html), Some("See the HTML")), ["482913"]);
        assert_eq!(
            codes(None, Some(html), Some("Your code: 551234")),
            ["551234"]
        );
        assert!(codes(None, None, None).is_empty());
    }

    /// Each word takes memory, and one message may have millions of them.
    #[test]
    fn only_the_beginning_of_a_long_text_is_searched() {
        let words = "a ".repeat(2 << 20);
        let first = format!("Your code: 482913. {words}");
        let last = format!("{words} code: 482913");
        assert_eq!(codes(None, None, Some(&first)), ["482913"]);
        assert_eq!(codes(None, None, Some(&last)), [""; 0]);
        assert_eq!(codes(None, Some(&format!("<p>{last}</p>")), None), [""; 0]);
        // A long style sheet is not text.
        let style = "p { color: red }\n".repeat(20_000);
        let html = format!("<style>{style}</style><p>Your code: 482913</p>");
        assert_eq!(codes(None, Some(&html), None), ["482913"]);
        let numbers: String = (0..50_000).map(|n| format!("{} ", 100_000 + n)).collect();
        let found = codes(None, None, Some(&format!("Codes: {numbers}")));
        assert_eq!(found.len(), super::MAX_TEXT / "100000 ".len() - 1);
    }
}
