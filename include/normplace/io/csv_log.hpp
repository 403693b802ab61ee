// SPDX-License-Identifier: BSD-3-Clause
//
// A table that is written while a run goes on, one row at a time, as RFC 4180 has it but with \n at the ends of lines.
// Whatever stops the run, every row that was written is there; a run that goes on from a checkpoint goes on with the
// log as well, without the rows that it will write again.
//
//     CsvLog log("run.csv", {"step", "loss", "accuracy"});
//     log.write({step, loss, std::nullopt});
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <vector>

#include <normplace/io/atomic_file.hpp>

namespace normplace {

/// One entry of a row: text, a number with as many digits as bring its bits back (`nan`, `inf` and `-inf` where it is
/// none), or nothing.
class CsvField {
public:
    CsvField(std::nullopt_t) {}
    CsvField(const char* text) : CsvField(std::string_view(text)) {}
    CsvField(const std::string& text) : CsvField(std::string_view(text)) {}
    CsvField(std::string_view text) : text_(text) {
        if (text.find_first_of(",\"\r\n") == std::string_view::npos) return;
        text_.assign(1, '"');
        for (const char character : text) text_ += character == '"' ? std::string("\"\"") : std::string(1, character);
        text_ += '"';
    }
    template <class Number>
    requires(std::is_arithmetic_v<Number>) CsvField(Number number) {
        if constexpr (std::is_same_v<Number, bool>) text_ = number ? "1" : "0";
        else {
            if constexpr (std::is_floating_point_v<Number>)
                if (std::isnan(number)) number = std::abs(number);  // no library writes -nan then
            char text[64];
            text_.assign(text, std::to_chars(text, text + sizeof text, number).ptr);
        }
    }
    template <class Value>
    CsvField(const std::optional<Value>& value) {
        if (value) *this = CsvField(*value);
    }

    /// As it stands in the file.
    const std::string& text() const { return text_; }

private:
    std::string text_;
};

class CsvLog {
public:
    /// A new log. One that exists is replaced.
    /// @param columns their names; the first is that of the step, a whole number that every row begins with
    /// @throws std::invalid_argument when there are no columns
    /// @throws std::runtime_error when it cannot be written
    CsvLog(const std::filesystem::path& path, const std::vector<std::string>& columns)
        : CsvLog(path, columns, header_of(columns)) {}

    /// Goes on with a log from the row of `first_step`: rows of this step and later ones are dropped, and so is a last
    /// line that was not finished. A log that does not exist is begun.
    /// @throws std::runtime_error, leaving the file as it is, when it has other columns or is no log
    static CsvLog resume(const std::filesystem::path& path, const std::vector<std::string>& columns,
                         std::uint64_t first_step) {
        const std::string header = header_of(columns);
        std::error_code ignored;
        if (!std::filesystem::exists(path, ignored)) return CsvLog(path, columns, header);
        std::ifstream file(path, std::ios::binary);
        if (!file) refuse(path, "it cannot be read: " + std::generic_category().message(errno));
        const std::string content{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
        return CsvLog(path, columns, kept(path, content, header, first_step));
    }

    /// Adds a row, which is in the file when this returns.
    /// @throws std::invalid_argument when there are not as many fields as columns, or the first is no whole number
    /// @throws std::runtime_error with the system's reason, when it cannot be written; nothing of it is in the file
    /// then
    void write(const std::vector<CsvField>& row) {
        if (row.size() != columns_)
            throw std::invalid_argument("CsvLog: a row has " + std::to_string(row.size()) + " fields, expected " +
                                        std::to_string(columns_));
        if (!step_of(row[0].text()))
            throw std::invalid_argument("CsvLog: a row begins with '" + row[0].text() + "', expected a step");
        const std::string line = line_of(row);
        if (std::fwrite(line.data(), 1, line.size(), file_.get()) != line.size()) {
            const int error = errno;
            if (::ftruncate(::fileno(file_.get()), static_cast<off_t>(size_)) != 0)
                detail::refuse_writing(path_, std::generic_category().message(error) + ", in the middle of a row");
            detail::refuse_writing(path_, error);
        }
        size_ += line.size();
    }

private:
    /// A log that begins with these lines.
    CsvLog(const std::filesystem::path& path, const std::vector<std::string>& columns, const std::string& content)
        : path_(path), columns_(columns.size()), size_(content.size()) {
        AtomicFile begun(path);
        begun.write(content);
        begun.commit();
        file_.reset(std::fopen(path.c_str(), "ab"));
        if (!file_) detail::refuse_writing(path, errno);
        std::setvbuf(file_.get(), nullptr, _IONBF, 0);  // a row goes to the system in one piece, or fails at once
    }

    [[noreturn]] static void refuse(const std::filesystem::path& path, const std::string& sentence) {
        throw std::runtime_error("log '" + path.string() + "': " + sentence);
    }

    static std::string line_of(const std::vector<CsvField>& row) {
        std::string line;
        for (const CsvField& field : row) line += (&field == row.data() ? "" : ",") + field.text();
        return line + '\n';
    }
    static std::string header_of(const std::vector<std::string>& columns) {
        if (columns.empty()) throw std::invalid_argument("CsvLog: there are no columns, expected at least a step");
        return line_of({columns.begin(), columns.end()});
    }

    static std::optional<std::uint64_t> step_of(std::string_view field) {
        std::uint64_t step = 0;
        const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), step);
        if (error != std::errc() || end != field.data() + field.size()) return {};
        return step;
    }

    /// The first line of `text` with its end, which is not within quotes; empty when it is not finished.
    static std::string_view first_line(std::string_view text) {
        bool quoted = false;
        for (std::size_t i = 0; i < text.size(); ++i) {
            if (text[i] == '"') quoted = !quoted;
            if (text[i] == '\n' && !quoted) return text.substr(0, i + 1);
        }
        return {};
    }

    /// What a log that goes on at `first_step` begins with.
    static std::string kept(const std::filesystem::path& path, std::string_view content, const std::string& header,
                            std::uint64_t first_step) {
        std::string_view line = first_line(content);
        if (line != header) {
            const std::string_view theirs = content.substr(0, std::min(content.find('\n'), std::size_t{200}));
            refuse(path, "its columns are '" + std::string(theirs) + "', this run's are '" +
                             header.substr(0, header.size() - 1) + "'");
        }
        std::string text = header;
        for (std::size_t number = 2;; ++number) {
            content.remove_prefix(line.size());
            line = first_line(content);
            if (line.empty()) return text;
            const std::string_view field = line.substr(0, line.find_first_of(",\n"));
            const std::optional<std::uint64_t> step = step_of(field);
            if (!step)
                refuse(path, "row " + std::to_string(number) + " begins with '" + std::string(field.substr(0, 200)) +
                                 "', expected a step");
            if (*step < first_step) text += line;
        }
    }

    std::filesystem::path path_;
    std::size_t columns_;
    std::uint64_t size_;
    detail::FileHandle file_;
};

}  // namespace normplace
