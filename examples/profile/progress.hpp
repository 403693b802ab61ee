// SPDX-License-Identifier: BSD-3-Clause
//
// A progress bar on standard error, for people only: nothing is written when that is not a terminal.
#pragma once

#include <chrono>
#include <string>

namespace profile {

class Progress {
public:
    explicit Progress(double total);
    ~Progress();
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    /// What is being done now.
    void stage(const std::string& what);
    /// `amount` of the total is done.
    void advance(double amount);

private:
    void draw();

    bool on_;
    double total_, done_ = 0.0;
    std::string what_;
    std::chrono::steady_clock::time_point start_, drawn_;
};

}  // namespace profile
