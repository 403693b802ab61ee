// SPDX-License-Identifier: BSD-3-Clause
//
// What a reproduced figure is: plots, the numbers behind them, and the paper's claims with what became of them.
#pragma once

#include <string>
#include <vector>

namespace reproduce {

struct Series {
    std::string name;
    std::vector<double> x, y;
    std::vector<double> error;  ///< standard error of each y; empty: unknown
    bool points = false;        ///< drawn as points, else as a line
};

struct Plot {
    std::string name;  ///< of its files, "figure-2-adam"
    std::string title, x_label, y_label;
    bool log_y = false;
    double least_span = 0.0;  ///< of the y axis, so that next to nothing is not drawn large; not with log_y
    std::vector<Series> series{};
};

enum class Verdict { holds, does_not_hold, undecided };

struct Claim {
    std::string paper;  ///< what the paper says, in one sentence
    std::string here;   ///< what was found, with the numbers
    Verdict verdict = Verdict::undecided;
};

struct Figure {
    std::string title;    ///< "Figure 2: Post-LN with and without warm-up"
    std::string setting;  ///< what was run here, in a few sentences
    std::vector<Plot> plots;
    std::vector<Claim> claims;
};

struct Page {
    std::string title;
    std::string setting;  ///< the run as a whole: size, corpus, model, machine, time
    std::vector<Figure> figures;
};

/// Writes page.html, which holds everything, and beside it the plots (.svg and .png), results.csv and results.json.
/// Without gnuplot the page has the numbers alone, and says so.
/// @throws std::invalid_argument when sizes of a series differ, or plots' names are no file names or repeat
/// @throws std::runtime_error when a file cannot be written
void write_page(const std::string& folder, const Page& page);

}  // namespace reproduce
