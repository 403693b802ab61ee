// SPDX-License-Identifier: BSD-3-Clause
//
// A line on standard error that shows how far a long run is, for people only: nothing at all is written when standard
// error is not a terminal.
//
//     epoch 3 [##########....................] 1200/5000 steps, loss 2.13, 35.2 steps/s, 1 min 48 s left
#pragma once

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace normplace {

struct ProgressOptions {
    double total = 0.0;   ///< how much there is to do; 0 when that is not known
    double done = 0.0;    ///< what was done before, by the run that this one goes on from
    std::string label{};  ///< stands first
    std::string unit{};   ///< of total and done, `steps` say; without one the line has percents and no rate
};

namespace detail {

/// A time in its two largest units: 45 s, 3 min 20 s, 2 h 5 min, 4 d 7 h.
inline std::string duration_text(double seconds) {
    const double longest = 1e4 * 86400.0;
    if (std::isnan(seconds) || seconds >= longest) return "years";
    const auto text = [](double amount, const char* unit) {
        char characters[32];
        std::snprintf(characters, sizeof characters, "%.0f %s", amount, unit);
        return std::string(characters);
    };
    // Each unit is rounded to before it is split, so that 59.9 s are 1 min 0 s and not 0 min 60 s.
    const double whole = std::round(std::max(seconds, 0.0)), minutes = std::round(whole / 60.0),
                 hours = std::round(whole / 3600.0);
    if (whole < 60.0) return text(whole, "s");
    if (whole < 3600.0) return text(std::floor(whole / 60.0), "min") + " " + text(std::fmod(whole, 60.0), "s");
    if (minutes < 1440.0) return text(std::floor(minutes / 60.0), "h") + " " + text(std::fmod(minutes, 60.0), "min");
    return text(std::floor(hours / 24.0), "d") + " " + text(std::fmod(hours, 24.0), "h");
}

/// The line after `seconds` in which `options.done` became `done`.
inline std::string progress_line(const ProgressOptions& options, double done, std::string_view text, double seconds) {
    constexpr double bar_width = 30.0, too_early_to_tell = 1.0;  // seconds before there is a rate
    const auto number = [](const char* format, double value) {
        char characters[64];
        std::snprintf(characters, sizeof characters, format, value);
        return std::string(characters);
    };
    const bool has_total = options.total > 0.0 && std::isfinite(options.total);
    const double share = has_total && done > 0.0 ? std::min(done / options.total, 1.0) : 0.0;
    const double rate = (done - options.done) / seconds;
    const bool has_rate = seconds >= too_early_to_tell && rate > 0.0 && std::isfinite(rate);

    std::string line = options.label;
    if (has_total) {
        const auto filled = static_cast<std::size_t>(share * bar_width);
        line += (line.empty() ? "[" : " [") + std::string(filled, '#') +
                std::string(static_cast<std::size_t>(bar_width) - filled, '.') + "]";
    }
    const auto add = [&](const std::string& part, const char* separator) {
        if (!part.empty()) line += (line.empty() ? "" : separator) + part;
    };
    std::string count;
    if (!options.unit.empty())
        count = number("%.0f", done) + (has_total ? number("/%.0f", options.total) : "") + " " + options.unit;
    else if (has_total) count = number("%.0f %%", std::floor(100.0 * share));
    add(count, " ");
    add(std::string(text), ", ");
    if (has_rate && !options.unit.empty())
        add(number(rate < 100.0 ? "%.3g " : "%.0f ", rate) + options.unit + "/s", ", ");
    if (has_rate && has_total) add(duration_text((options.total - done) / rate) + " left", ", ");
    return line;
}

/// The part of `text`, which is UTF-8, that takes at most `columns` of one character each.
inline std::string_view cut_to(std::string_view text, std::size_t columns) {
    std::size_t end = 0;
    const auto continues = [&] { return (static_cast<unsigned char>(text[end]) & 0xC0u) == 0x80u; };
    for (; end < text.size() && (columns > 0 || continues()); ++end)
        if (!continues()) --columns;
    return text.substr(0, end);
}

}  // namespace detail

/// One thread at a time may use it.
class Progress {
public:
    explicit Progress(ProgressOptions options, std::FILE* terminal = stderr)
        : options_(std::move(options)),
          terminal_(terminal),
          on_(::isatty(::fileno(terminal)) != 0),
          done_(options_.done),
          start_(Clock::now()) {}
    ~Progress() { clear(); }
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    /// Shows what is being done now.
    void label(const std::string& label) {
        options_.label = label;
        draw();
    }

    /// So much is done; `text` says how it goes. A text that takes work to put together may be a function, which is
    /// called only when the line is drawn: at most five times a second.
    template <class Text>
    void update(double done, const Text& text) {
        done_ = done;
        if (!is_due()) return;
        if constexpr (std::is_invocable_v<const Text&>) text_ = text();
        else text_ = text;
        draw();
    }
    void update(double done) {
        done_ = done;
        if (is_due()) draw();
    }
    /// `amount` more is done.
    void advance(double amount) { update(done_ + amount); }

    /// Takes the line away, before something else is written to the terminal; the next update brings it back.
    void clear() {
        if (!std::exchange(shown_, false)) return;
        std::fputs("\r\033[K", terminal_);
        std::fflush(terminal_);
    }

private:
    using Clock = std::chrono::steady_clock;
    static constexpr auto redraw_after = std::chrono::milliseconds(200);

    bool is_due() const { return on_ && (!shown_ || Clock::now() - drawn_ >= redraw_after); }

    void draw() {
        if (!on_) return;
        drawn_ = Clock::now();
        shown_ = true;
        const std::string line =
            detail::progress_line(options_, done_, text_, std::chrono::duration<double>(drawn_ - start_).count());
        // A line that is wider than the terminal would go on to the next, and stay there.
        winsize size{};
        const bool known = ::ioctl(::fileno(terminal_), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
        const std::string shown(detail::cut_to(line, known ? size.ws_col - 1u : 79u));
        std::fprintf(terminal_, "\r\033[K%s", shown.c_str());
        std::fflush(terminal_);
    }

    ProgressOptions options_;
    std::FILE* terminal_;
    bool on_, shown_ = false;
    double done_;
    std::string text_;
    Clock::time_point start_, drawn_;
};

}  // namespace normplace
