//! Command lines as they stand in tables and help texts.

/// Words as a shell splits them: enough for our own lines.
pub fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut open) = (Vec::new(), String::new(), None, false);
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
