//! Tables with a header and aligned columns.

use super::output::{Style, one_line};

const GAP: &str = "  ";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Align {
    Left,
    Right,
}

#[derive(Debug, Clone, Copy)]
struct Column {
    name: &'static str,
    align: Align,
    /// Shown by `-o wide` only.
    wide: bool,
}

/// Rows below a header. A column is as wide as its widest cell: nothing is cut or wrapped, because ids are there to be copied.
#[derive(Debug, Default)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new() -> Table {
        Table::default()
    }

    pub fn left(self, name: &'static str) -> Table {
        self.column(name, Align::Left, false)
    }

    /// For numbers.
    pub fn right(self, name: &'static str) -> Table {
        self.column(name, Align::Right, false)
    }

    /// A left-aligned column that only `-o wide` shows.
    pub fn wide(self, name: &'static str) -> Table {
        self.column(name, Align::Left, true)
    }

    fn column(mut self, name: &'static str, align: Align, wide: bool) -> Table {
        self.columns.push(Column { name, align, wide });
        self
    }

    /// Adds a row, which has a cell for every column, shown or not.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| one_line(&cell)).collect());
    }

    pub fn render(&self, style: Style) -> String {
        let shown: Vec<(usize, &Column)> =
            self.columns.iter().enumerate().filter(|(_, column)| style.wide || !column.wide).collect();
        let width = |at: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count());
            cells.chain([self.columns[at].name.len()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = shown.iter().map(|(at, _)| width(*at)).collect();
        let line = |cell: &dyn Fn(usize) -> Option<String>| {
            let padded = shown.iter().zip(&widths).map(|((at, column), width)| {
                let cell = cell(*at).unwrap_or_default();
                let space = " ".repeat(width.saturating_sub(cell.chars().count()));
                match column.align {
                    Align::Left => format!("{cell}{space}"),
                    Align::Right => format!("{space}{cell}"),
                }
            });
            padded.collect::<Vec<_>>().join(GAP).trim_end().to_owned()
        };
        let header = line(&|at| self.columns.get(at).map(|column| column.name.to_owned()));
        let mut text = style.bold(&header) + "\n";
        for row in &self.rows {
            text += &line(&|at| row.get(at).cloned());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_some_are_for_wide_output() {
        let mut table = Table::new().left("TOPIC").wide("ID").right("MESSAGES").left("TYPE");
        table.row(["orders", "id", "12345678901", "FIFO"].map(str::to_owned));
        table.row(["é", "", "7", ""].map(str::to_owned));
        let expected =
            concat!("TOPIC      MESSAGES  TYPE\n", "orders  12345678901  FIFO\n", "é                 7\n",);
        assert_eq!(table.render(Style::default()), expected);
        let wide = table.render(Style::wide());
        assert!(wide.starts_with("TOPIC   ID     MESSAGES  TYPE\norders  id  12345678901  FIFO\n"), "{wide}");
    }

    #[test]
    fn a_cell_never_breaks_the_table_or_the_terminal() {
        let mut table = Table::new().left("KEYS");
        table.row(["a\nb\u{1b}[2J".to_owned()]);
        assert_eq!(table.render(Style::default()), "KEYS\na b [2J\n");
    }
}
