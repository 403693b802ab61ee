// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <normplace/io/progress.hpp>

#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <limits>
#include <string>

using namespace normplace;
using detail::cut_to;
using detail::duration_text;
using detail::progress_line;

namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN(),
                 infinity = std::numeric_limits<double>::infinity();

/// A terminal of which a test reads what is shown.
class Terminal {
public:
    explicit Terminal(unsigned short columns) : master_(::posix_openpt(O_RDWR | O_NOCTTY)) {
        REQUIRE(master_ >= 0);
        REQUIRE(::grantpt(master_) == 0);
        REQUIRE(::unlockpt(master_) == 0);
        stream_ = std::fopen(::ptsname(master_), "w");
        REQUIRE(stream_ != nullptr);
        const winsize size{24, columns, 0, 0};
        REQUIRE(::ioctl(master_, TIOCSWINSZ, &size) == 0);
        REQUIRE(::fcntl(master_, F_SETFL, O_NONBLOCK) == 0);
    }
    ~Terminal() {
        std::fclose(stream_);
        ::close(master_);
    }
    std::FILE* stream() const { return stream_; }
    std::string shown() const {
        char text[4096];
        const ssize_t count = ::read(master_, text, sizeof text);
        return {text, count > 0 ? static_cast<std::size_t>(count) : 0};
    }

private:
    int master_;
    std::FILE* stream_;
};

}  // namespace

TEST_CASE("a time has its two largest units, rounded") {
    CHECK(duration_text(0.0) == "0 s");
    CHECK(duration_text(-3.0) == "0 s");
    CHECK(duration_text(59.4) == "59 s");
    CHECK(duration_text(59.6) == "1 min 0 s");
    CHECK(duration_text(200.0) == "3 min 20 s");
    CHECK(duration_text(3599.4) == "59 min 59 s");
    CHECK(duration_text(3599.6) == "1 h 0 min");
    CHECK(duration_text(2.0 * 3600.0 + 5.0 * 60.0 + 29.0) == "2 h 5 min");
    CHECK(duration_text(2.0 * 3600.0 + 59.0 * 60.0 + 31.0) == "3 h 0 min");
    CHECK(duration_text(86400.0 - 31.0) == "23 h 59 min");
    CHECK(duration_text(86400.0 - 29.0) == "1 d 0 h");
    CHECK(duration_text(4.0 * 86400.0 + 7.4 * 3600.0) == "4 d 7 h");
    CHECK(duration_text(4.0 * 86400.0 + 23.6 * 3600.0) == "5 d 0 h");
    for (const double forever : {1e9, 1e300, infinity, not_a_number}) CHECK(duration_text(forever) == "years");
    CHECK(duration_text(-infinity) == "0 s");
}

TEST_CASE("the line says how far it is, how it goes and how long it takes") {
    const std::string ten = "[##########....................]";
    const ProgressOptions steps{.total = 3000.0, .done = 0.0, .label = "epoch 3", .unit = "steps"};
    CHECK(progress_line(steps, 1000.0, "loss 2.13", 20.0) ==
          "epoch 3 " + ten + " 1000/3000 steps, loss 2.13, 50 steps/s, 40 s left");
    CHECK(progress_line(steps, 1000.0, "", 0.5) == "epoch 3 " + ten + " 1000/3000 steps");

    // A run that goes on from step 400 has made 600 steps, not 1000.
    ProgressOptions resumed = steps;
    resumed.done = 400.0;
    CHECK(progress_line(resumed, 1000.0, "", 20.0) ==
          "epoch 3 " + ten + " 1000/3000 steps, 30 steps/s, 1 min 7 s left");

    // Work that is not counted in anything has percents.
    CHECK(progress_line({.total = 3.0, .label = "measuring"}, 1.0, "", 10.0) ==
          "measuring " + ten + " 33 %, 20 s left");
    CHECK(progress_line({.total = 3.0}, 1.0, "", 0.0) == ten + " 33 %");
}

TEST_CASE("a total that is not known, or is wrong, does no harm") {
    for (const double total : {0.0, -1.0, not_a_number, infinity}) {
        CHECK(progress_line({.total = total, .unit = "steps"}, 100.0, "loss 2", 10.0) ==
              "100 steps, loss 2, 10 steps/s");
        CHECK(progress_line({.total = total}, 100.0, "", 10.0) == "");
    }
    CHECK(progress_line({.total = 2.0}, 5.0, "", 5.0) == "[" + std::string(30, '#') + "] 100 %, 0 s left");
    for (const double done : {0.0, -5.0, not_a_number})
        CHECK(progress_line({.total = 2.0}, done, "", 5.0) == "[" + std::string(30, '.') + "] 0 %");
    CHECK(progress_line({.total = 2.0}, infinity, "", 5.0) == "[" + std::string(30, '#') + "] 100 %");
}

TEST_CASE("a line is cut between characters") {
    CHECK(cut_to("loss 2.13", 4) == "loss");
    CHECK(cut_to("loss", 9) == "loss");
    CHECK(cut_to("fünf", 2) == "fü");
    CHECK(cut_to("fünf", 3) == "fün");
    CHECK(cut_to("x", 0) == "");
    CHECK(cut_to("", 3) == "");
}

TEST_CASE("a terminal shows the line, as wide as it is, and nothing in the end") {
    const Terminal terminal(12);
    {
        Progress progress({.total = 4.0, .label = "training", .unit = "steps"}, terminal.stream());
        int texts = 0;
        const auto text = [&] { return "text " + std::to_string(++texts); };
        progress.update(1.0, text);
        CHECK(terminal.shown() == "\r\033[Ktraining [#");
        for (int i = 0; i < 1000; ++i) progress.update(2.0, text);
        CHECK(texts <= 2);  // one more if the loop took a fifth of a second
        terminal.shown();
        progress.label("x");
        CHECK(terminal.shown() == "\r\033[Kx [########");
        progress.clear();
        CHECK(terminal.shown() == "\r\033[K");
        progress.clear();
        CHECK(terminal.shown() == "");
        progress.advance(1.0);
        CHECK(terminal.shown().starts_with("\r\033[Kx [########"));
    }
    CHECK(terminal.shown() == "\r\033[K");
}

TEST_CASE("what is no terminal gets nothing, and texts are not made for it") {
    std::FILE* file = std::tmpfile();
    REQUIRE(file != nullptr);
    {
        Progress progress({.total = 2.0}, file);
        progress.label("label");
        progress.update(1.0, [] {
            FAIL_CHECK("a text was made");
            return std::string();
        });
        progress.advance(1.0);
        progress.clear();
    }
    CHECK(std::ftell(file) == 0);
    std::fclose(file);
}
