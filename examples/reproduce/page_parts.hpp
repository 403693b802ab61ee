// SPDX-License-Identifier: BSD-3-Clause
//
// The parts of write_page. Each takes a page whose texts are valid UTF-8 and whose series have as many x as y.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "figure.hpp"

namespace reproduce {

/// The whole page; null where there is no value.
void write_json(std::ostream& stream, const Page& page);

/// One row per point; an empty field where there is no value.
void write_csv(std::ostream& stream, const Page& page);

/// What gnuplot needs to draw the plot to a file that ends in .svg or .png. What is not finite is left out, and a line
/// has a gap there; so is what is not above 0 on a logarithmic axis.
std::string gnuplot_script(const Plot& plot, const std::string& file);

/// page.html.
/// @param svgs gnuplot's, of each plot in the page's order; none: there is no gnuplot
std::string html(const Page& page, const std::vector<std::string>& svgs);

}  // namespace reproduce
