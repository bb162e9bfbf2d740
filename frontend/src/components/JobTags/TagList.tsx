/** Tags, each with a link to the jobs that have it. */

import { Link } from 'react-router';

import classes from './JobTags.module.css';

export function TagList({ tags }: { readonly tags: readonly string[] }) {
  return tags.map((tag) => (
    <Link key={tag} className={classes.tag} to={`/?filter=${encodeURIComponent(tag)}`}>
      {tag}
    </Link>
  ));
}
