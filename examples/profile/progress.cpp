// SPDX-License-Identifier: BSD-3-Clause
#include "progress.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace profile {

namespace {
constexpr int bar_width = 30;
constexpr auto redraw_after = std::chrono::milliseconds(100);
constexpr double too_early_to_tell = 0.05;  // of the work, before a time left is shown
}  // namespace

Progress::Progress(double total)
    : on_(isatty(STDERR_FILENO) != 0 && total > 0.0), total_(total), start_(std::chrono::steady_clock::now()) {}

Progress::~Progress() {
    if (on_) std::fputs("\r\033[K", stderr);
}

void Progress::stage(const std::string& what) {
    what_ = what;
    draw();
}

void Progress::advance(double amount) {
    done_ = std::min(done_ + amount, total_);
    if (std::chrono::steady_clock::now() - drawn_ > redraw_after) draw();
}

void Progress::draw() {
    if (!on_) return;
    drawn_ = std::chrono::steady_clock::now();
    const double share = done_ / total_, spent = std::chrono::duration<double>(drawn_ - start_).count();
    const auto filled = static_cast<std::size_t>(share * bar_width);
    const std::string bar = std::string(filled, '#') + std::string(bar_width - filled, '.');
    std::fprintf(stderr, "\r\033[K[%s] %3.0f %%  %s", bar.c_str(), 100.0 * share, what_.c_str());
    if (share > too_early_to_tell) std::fprintf(stderr, ", %.0f s left", spent * (1.0 - share) / share);
    std::fflush(stderr);
}

}  // namespace profile
