//! Picture of a board: each panel at its place, as Grafana arranges them.

use anyhow::Result;
use plotters::chart::ChartBuilder;
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, IntoDrawingArea};
use plotters::element::{PathElement, Text};
use plotters::prelude::{AsRelative, SVGBackend};
use plotters::series::LineSeries;
use plotters::style::{BLACK, Color, IntoFont, RGBColor, WHITE};

use super::board::{Board, Kind, Panel};
use super::prometheus::Curve;

/// Size of a cell of Grafana's grid, in pixels.
const CELL: (u32, u32) = (50, 30);
/// Cells of a row.
const COLUMNS: u32 = 24;
/// Height of the heading of the board.
const HEADING: u32 = 40;
/// Distance between the frame of a panel and its content, and between two lines of text.
const SPACE: (i32, i32) = (10, 18);
/// Height of letters in panels.
const LETTER: i32 = 12;
/// Lines of a table, and curves with a name, that a panel has room for.
const MOST_LINES: usize = 10;
/// Colours that people with any colour vision can tell apart.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    BLACK,
];
const GREY: RGBColor = RGBColor(204, 204, 204);

/// Text of a panel without curves.
const NO_DATA: &str = "no data";

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Panel with the curves of its expressions.
pub struct DrawnPanel<'a> {
    pub panel: &'a Panel,
    pub curves: Vec<Curve>,
}

/// Returns a board as SVG. The time begins at 0 s.
///
/// # Errors
/// Returns an error if a panel cannot be drawn.
pub fn svg(board: &Board, panels: &[DrawnPanel<'_>]) -> Result<String> {
    let rows = board.panels.iter().map(|panel| panel.place.y + panel.place.h).max().unwrap_or_default();
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (COLUMNS * CELL.0, HEADING + rows * CELL.1)).into_drawing_area();
        root.fill(&WHITE)?;
        write(&root, (SPACE.0, SPACE.0), 20, &board.title)?;
        for heading in board.panels.iter().filter(|panel| panel.kind == Kind::Row) {
            write(&area_of(&root, heading), (SPACE.0, SPACE.0), 16, &heading.title)?;
        }
        for drawn in panels {
            draw(&area_of(&root, drawn.panel), drawn)?;
        }
        root.present()?;
    }
    Ok(svg)
}

fn area_of<'a>(root: &Area<'a>, panel: &Panel) -> Area<'a> {
    let place = panel.place;
    root.clone().shrink((place.x * CELL.0, HEADING + place.y * CELL.1), (place.w * CELL.0, place.h * CELL.1))
}

fn write(area: &Area<'_>, at: (i32, i32), size: i32, words: &str) -> Result<()> {
    Ok(area.draw(&Text::new(words.to_owned(), at, ("sans-serif", size).into_font()))?)
}

fn draw(area: &Area<'_>, drawn: &DrawnPanel<'_>) -> Result<()> {
    let frame = area.margin(3, 3, 3, 3);
    let (width, height) = frame.dim_in_pixel();
    let (right, bottom) = (i32::try_from(width)? - 1, i32::try_from(height)? - 1);
    let corners = vec![(0, 0), (right, 0), (right, bottom), (0, bottom), (0, 0)];
    frame.draw(&PathElement::new(corners, GREY))?;
    write(&frame, SPACE_OF_TITLE, 14, &drawn.panel.title)?;
    if drawn.curves.is_empty() {
        return write(&frame, (SPACE.0, 2 * SPACE.1), LETTER, NO_DATA);
    }
    match drawn.panel.kind {
        Kind::Row => Ok(()),
        Kind::Stat => numbers(&frame, drawn),
        Kind::Table => table(&frame, drawn),
        Kind::Timeseries => curves(&frame.margin(24, 4, 4, 10), drawn),
    }
}

const SPACE_OF_TITLE: (i32, i32) = (SPACE.0, 8);

fn numbers(frame: &Area<'_>, DrawnPanel { panel, curves }: &DrawnPanel<'_>) -> Result<()> {
    let values: Vec<String> = curves.iter().map(|curve| panel.unit().text(curve.last())).collect();
    write(frame, (SPACE.0, 2 * SPACE.1), 34, &values.join(", "))
}

fn table(frame: &Area<'_>, DrawnPanel { panel, curves }: &DrawnPanel<'_>) -> Result<()> {
    for (curve, line) in curves.iter().take(MOST_LINES).zip(2..) {
        write(frame, (SPACE.0, line * SPACE.1), 13, &curve.name)?;
        write(
            frame,
            (i32::try_from(frame.dim_in_pixel().0)? * 3 / 4, line * SPACE.1),
            13,
            &panel.unit().text(curve.last()),
        )?;
    }
    Ok(())
}

fn curves(area: &Area<'_>, DrawnPanel { panel, curves }: &DrawnPanel<'_>) -> Result<()> {
    let (diagram, names) = area.split_horizontally((70).percent_width());
    let end = curves.iter().flat_map(|curve| &curve.points).map(|point| point.0).fold(1.0, f64::max);
    let most = curves.iter().flat_map(|curve| &curve.points).map(|point| point.1).fold(0.0, f64::max);
    let top = if most > 0.0 { most * 1.1 } else { 1.0 };
    let mut chart = ChartBuilder::on(&diagram)
        .x_label_area_size(22)
        .y_label_area_size(70)
        .build_cartesian_2d(0.0..end, 0.0..top)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(WHITE)
        .bold_line_style(GREY)
        .x_labels(5)
        .y_labels(4)
        .x_label_formatter(&|second| format!("{second:.0} s"))
        .y_label_formatter(&|value| panel.unit().text(*value))
        .draw()?;
    let coloured = || curves.iter().zip(COLOURS.iter().cycle());
    for (curve, colour) in coloured() {
        chart.draw_series(LineSeries::new(curve.points.iter().copied(), colour.stroke_width(2)))?;
    }
    for ((curve, colour), line) in coloured().take(MOST_LINES).zip(0..) {
        let y = SPACE.1 / 2 + line * SPACE.1;
        names.draw(&PathElement::new(vec![(SPACE.0, y), (2 * SPACE.0, y)], colour.stroke_width(2)))?;
        write(&names, (3 * SPACE.0, y - LETTER / 2), LETTER, &curve.name)?;
    }
    Ok(())
}
