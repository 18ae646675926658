use std::fmt;

/// What a client is written in, by the protocol's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Language(pub u8);

const NAMES: [&str; 14] = [
    "JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO", "PHP", "OMS",
    "RUST", "NODE_JS",
];
const OTHER: u8 = 7;

impl Language {
    pub const JAVA: Language = Language(0);
    pub const CPP: Language = Language(1);
    pub const RUST: Language = Language(12);

    /// Names that are not known count as `OTHER`: there are more languages than this list. A number counts as the
    /// language that has it.
    pub fn named(name: &str) -> Language {
        if let Ok(number) = name.parse() {
            return Language(number);
        }
        let index = NAMES.iter().position(|known| known.eq_ignore_ascii_case(name));
        Language(index.map_or(OTHER, |index| index as u8))
    }

    pub fn name(self) -> &'static str {
        NAMES.get(usize::from(self.0)).copied().unwrap_or(NAMES[usize::from(OTHER)])
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_agree_and_unknown_ones_are_tolerated() {
        assert_eq!(Language::named("GO"), Language(9));
        assert_eq!(Language::named("1"), Language::CPP);
        assert_eq!(Language::RUST.name(), "RUST");
        assert_eq!(Language::named("BASIC").name(), "OTHER");
        assert_eq!(Language(200).name(), "OTHER");
    }
}
