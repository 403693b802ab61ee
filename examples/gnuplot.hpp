// SPDX-License-Identifier: BSD-3-Clause
//
// What the programs that draw with gnuplot share: its terminals, texts, axes and colours, and running it.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <ostream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace gnuplot {

/// A colour-blind safe series (Okabe and Ito), and one point shape each, so that print in grey works too.
struct Look {
    const char* colour;
    int shape;
};
inline constexpr std::array<Look, 7> looks{{{"#0072B2", 7},
                                            {"#D55E00", 5},
                                            {"#009E73", 9},
                                            {"#CC79A7", 11},
                                            {"#E69F00", 13},
                                            {"#56B4E9", 15},
                                            {"#444444", 8}}};

/// 'text' for gnuplot, which doubles a single quote within and takes all else literally.
inline std::string quoted(const std::string& text) {
    std::string result = "'";
    for (const char c : text) result += c == '\'' ? std::string("''") : std::string(1, c);
    return result + "'";
}

/// For a file that ends in .svg, or a .png of one and a half times the size.
inline std::string terminal(const std::string& file, int width, int height) {
    std::ostringstream script;
    if (file.ends_with(".svg")) {
        script << "set terminal svg size " << width << ',' << height
               << " font 'DejaVu Sans,Helvetica,Arial,13' background 'white'\n";
    } else {
        const int wide = width * 3 / 2, high = height * 3 / 2;
        script << "if (strstrt(GPVAL_TERMINALS, 'pngcairo')) { set terminal pngcairo size " << wide << ',' << high
               << " font 'DejaVu Sans,13' fontscale 1.35 linewidth 1.5 pointscale 1.5 } else { set terminal png size "
               << wide << ',' << high << " }\n";
    }
    return script.str();
}

/// A range and its ticks.
struct Axis {
    double low, high;
    std::string ticks;  ///< a command; empty: gnuplot's own
};

/// Around [low, high], both above 0, with ticks at a few round numbers in each power of ten.
inline Axis logarithmic_axis(double low, double high) {
    // At least a factor 4, or a flat line would be drawn through a magnifying glass.
    const double middle = std::sqrt(low) * std::sqrt(high),
                 half = std::max(std::sqrt(high) / std::sqrt(low) * 1.25, 2.0);
    Axis axis{middle / half, middle * half, ""};
    if (half > 50.0) return axis;  // gnuplot's own ticks at the powers of ten are enough
    std::ostringstream ticks;
    ticks << "set ytics (";
    bool first = true;
    for (double power = std::pow(10.0, std::floor(std::log10(axis.low))); power <= axis.high; power *= 10.0)
        for (const double digit : {1.0, 1.5, 2.0, 3.0, 5.0, 7.0}) {
            const double tick = digit * power;
            const bool fine = digit == 1.5 || digit == 3.0 || digit == 7.0;
            if (fine && half > 4.0) continue;
            if (tick >= axis.low && tick <= axis.high) ticks << (std::exchange(first, false) ? "" : ", ") << tick;
        }
    ticks << ")\n";
    axis.ticks = ticks.str();
    return axis;
}

/// $name, for `plot $name using ...`
template <std::size_t columns>
void data_block(std::ostream& script, const std::string& name, const std::vector<std::array<double, columns>>& rows) {
    script << "$" << name << " << EOD\n";
    for (const auto& row : rows) {
        for (const double value : row) {
            if (std::isfinite(value)) script << ' ' << value;
            else script << " NaN";
        }
        script << '\n';
    }
    script << "EOD\n";
}

inline bool has_gnuplot() {
    const char* path = std::getenv("PATH");
    std::istringstream folders(path ? path : "");
    for (std::string folder; std::getline(folders, folder, ':');) {
        std::error_code error;
        if (std::filesystem::is_regular_file(folder + "/gnuplot", error)) return true;
    }
    return false;
}

/// @return whether gnuplot did all that the script asks
inline bool run(const std::string& script) {
    std::signal(SIGPIPE, SIG_IGN);                      // a gnuplot that dies early is seen below
    FILE* gnuplot = popen("gnuplot > /dev/null", "w");  // it draws there when it cannot open the file
    if (!gnuplot) return false;
    std::fwrite(script.data(), 1, script.size(), gnuplot);
    return pclose(gnuplot) == 0;
}

}  // namespace gnuplot
