//! Splits the command lines of tables and help texts into words.

/// Splits at spaces and removes quotes, as a shell does. Supports only what our own lines use.
pub fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quote = None;
    let mut open = false;
    for character in line.chars() {
        match (quote, character) {
            (None, '\'' | '"') => (quote, open) = (Some(character), true),
            (Some(end), _) if end == character => quote = None,
            (None, ' ') if open || !word.is_empty() => {
                words.push(std::mem::take(&mut word));
                open = false;
            }
            (None, ' ') => {}
            _ => word.push(character),
        }
    }

    if open || !word.is_empty() {
        words.push(word);
    }
    words
}
