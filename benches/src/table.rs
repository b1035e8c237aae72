//! Cells in columns.

/// Rows as wide as they need to be, the first column to the left and numbers to the right. A row of
/// one cell is a heading, however wide.
pub fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter(|row| row.len() > 1);
        let cells = cells.filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..count).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate();
        let line: String = cells
            .map(|(column, (cell, width))| match column {
                0 => format!("{cell:width$}"),
                _ => format!("  {cell:>width$}"),
            })
            .collect();
        format!("{}\n", line.trim_end())
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_make_no_column_wide() {
        let row = |cells: &[&str]| cells.iter().map(|cell| (*cell).to_owned()).collect();
        let rows = [
            row(&["A heading that is long"]),
            row(&["", "ours"]),
            row(&["ADD", "12.5"]),
            row(&["CHECK", "7", "x"]),
        ];
        let expected = "A heading that is long\n       ours\nADD    12.5\nCHECK     7  x\n";
        assert_eq!(columns(&rows), expected);
    }
}
