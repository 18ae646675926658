use super::output::{Style, one_line};

const GAP: &str = "  ";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Align {
    Left,
    Right,
}

/// Rows below a header, in columns as wide as what is in them. Nothing is cut or wrapped: ids are there to be copied.
#[derive(Debug, Default)]
pub struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new() -> Table {
        Table::default()
    }

    pub fn left(mut self, name: &'static str) -> Table {
        self.columns.push((name, Align::Left));
        self
    }

    /// For numbers.
    pub fn right(mut self, name: &'static str) -> Table {
        self.columns.push((name, Align::Right));
        self
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| one_line(&cell)).collect());
    }

    pub fn render(&self, style: Style) -> String {
        let width = |at: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count());
            cells.chain([self.columns[at].0.len()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let line = |cells: &mut dyn Iterator<Item = &str>| {
            let padded = cells.zip(&self.columns).zip(&widths).map(|((cell, (_, align)), width)| {
                let space = " ".repeat(width.saturating_sub(cell.chars().count()));
                match align {
                    Align::Left => format!("{cell}{space}"),
                    Align::Right => format!("{space}{cell}"),
                }
            });
            padded.collect::<Vec<_>>().join(GAP).trim_end().to_owned()
        };
        let header = line(&mut self.columns.iter().map(|(name, _)| *name));
        let mut text = style.bold(&header) + "\n";
        for row in &self.rows {
            text += &line(&mut row.iter().map(String::as_str));
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_numbers_end_below_one_another() {
        let mut table = Table::new().left("TOPIC").right("MESSAGES").left("TYPE");
        table.row(["orders".to_owned(), "12345678901".to_owned(), "FIFO".to_owned()]);
        table.row(["é".to_owned(), "7".to_owned(), String::new()]);
        let expected =
            concat!("TOPIC      MESSAGES  TYPE\n", "orders  12345678901  FIFO\n", "é                 7\n",);
        assert_eq!(table.render(Style::default()), expected);
    }

    #[test]
    fn a_cell_never_breaks_the_table_or_the_terminal() {
        let mut table = Table::new().left("KEYS");
        table.row(["a\nb\u{1b}[2J".to_owned()]);
        assert_eq!(table.render(Style::default()), "KEYS\na b [2J\n");
    }
}
